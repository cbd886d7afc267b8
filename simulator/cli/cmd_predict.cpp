#include "simulator/cli/command.h"
namespace foretrace {
void AddPredictCommand(CLI::App&, CommandContext&) {}
void AddInspectCommand(CLI::App&, CommandContext&) {}
void AddConvertCommand(CLI::App&, CommandContext&) {}
}  // namespace foretrace
