#include "simulator/cli/commands.h"

namespace foretrace {

std::vector<AddCommand> AllCommands() {
  return {
      AddInspectCommand,    AddConvertCommand,    AddCalibrateCommand,  AddPredictCommand,
      AddDiffCommand,       AddValidateCommand,   AddCollectiveCommand, AddShardCommand,
      AddShardTasksCommand, AddShardStudyCommand, AddPlaceCommand,      AddSearchCommand,
      AddGenerateCommand,   AddListCommand,       AddHelpCommand,
  };
}

std::string Examples(std::initializer_list<const char*> lines) {
  std::string text = "Examples:\n";
  for (const char* line : lines) text += std::string("  ") + line + "\n";
  return text;
}

}  // namespace foretrace
