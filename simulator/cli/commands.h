#pragma once

#include <vector>

#include "simulator/console/command.h"

namespace foretrace {

// Every subcommand, in the order in which help lists them. Built without FORETRACE_PLANNING, those
// that replay alone.
std::vector<AddCommand> AllCommands();

}  // namespace foretrace
