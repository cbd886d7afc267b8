#pragma once

#include <string>

#include "simulator/console/command.h"
#include "simulator/exporters/chakra/chakra_writer.h"

namespace foretrace {

// How a command writes Chakra files: never over its inputs, until Ctrl-C, with progress.
ChakraWriterOptions TraceFiles(std::string prefix, const CommandContext& context);

}  // namespace foretrace
