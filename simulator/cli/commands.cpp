#include "simulator/cli/commands.h"

namespace foretrace {

std::vector<AddCommand> AllCommands() {
  return {
      AddInspectCommand,    AddDoctorCommand,
#ifdef FORETRACE_PLANNING
      AddConvertCommand,    AddCalibrateCommand,
#endif
      AddPredictCommand,    AddDiffCommand,
#ifdef FORETRACE_PLANNING
      AddValidateCommand,
#endif
      AddCollectiveCommand,
#ifdef FORETRACE_PLANNING
      AddShardCommand,      AddShardTasksCommand, AddShardStudyCommand, AddSearchCommand,
      AddGenerateCommand,   AddServeCommand,      AddServeStudyCommand, AddDataflowCommand,
      AddExploreCommand,    AddArchitectCommand,  AddPlaceCommand,      AddSweepCommand,
      AddListCommand,
#endif
      AddHelpCommand,
  };
}

}  // namespace foretrace
