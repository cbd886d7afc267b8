#pragma once

#include <vector>

#include "simulator/cli/command.h"

namespace foretrace {

inline constexpr const char* kVersion = "0.1.0";

// Every subcommand, in the order in which help lists them.
std::vector<AddCommand> AllCommands();

}  // namespace foretrace
