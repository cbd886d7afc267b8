#pragma once
// A subcommand of foretrace: options, help with examples, and what it does. To add one, write
// cmd_<name>.cpp and add a line to commands.cpp.

#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "simulator/base/atomic_file.h"
#include "simulator/console/answer_files.h"
#include "simulator/console/output.h"
#include "simulator/console/processes.h"

namespace foretrace {

class TraceStore;

namespace CLI {
class App;
}

// What a command needs to register itself. `run` is set by the subcommand that the user chose; the
// rest is there when it runs.
struct CommandContext {
  std::function<absl::Status()> run;
  // Help on a command, or on all for ""; empty where there is no such command.
  std::function<std::string(const std::string& command)> help;
  // Runs another command line (without the program's name) within this one; its answer goes to
  // `console`.
  std::function<absl::Status(std::vector<std::string> arguments, Console& console)> run_command;
  bool within_another = false;  // run by run_command
  Console* console = nullptr;
  AnswerFiles* answer_files = nullptr;  // --html and --csv, of every command that has --json
  // Traces that were imported already and take the place of those that the command line names.
  std::shared_ptr<const TraceStore> traces;
  std::stop_token stop;   // asked for by Ctrl-C: end with what there is so far, and Cancelled
  ProtectedFiles inputs;  // every file that the command line names, but for its outputs

  // Those of mpirun; of a command within another this process alone, as the outer one shares out
  // whole commands.
  absl::StatusOr<std::unique_ptr<Processes>> StartProcesses() const {
    if (within_another) return std::make_unique<Processes>();
    return Processes::Start();
  }

  // The answer of `command` as files, where they were asked for; `object` as for PrintJson.
  absl::Status WriteAnswer(std::string_view command,
                           const std::function<std::string()>& object) const {
    return answer_files->Write(command, object, inputs);
  }
};

// Options in this group name files that are written; they are never an input of the same command.
inline constexpr const char* kOutputGroup = "Output";

// Adds the subcommand to `app`. Its callback sets context.run; nothing is computed while parsing.
using AddCommand = void (*)(CLI::App& app, CommandContext& context);

void AddListCommand(CLI::App& app, CommandContext& context);
void AddHelpCommand(CLI::App& app, CommandContext& context);
void AddPredictCommand(CLI::App& app, CommandContext& context);
void AddValidateCommand(CLI::App& app, CommandContext& context);
void AddDiffCommand(CLI::App& app, CommandContext& context);
void AddDoctorCommand(CLI::App& app, CommandContext& context);
void AddInspectCommand(CLI::App& app, CommandContext& context);
void AddConvertCommand(CLI::App& app, CommandContext& context);
void AddCollectiveCommand(CLI::App& app, CommandContext& context);
void AddServeCommand(CLI::App& app, CommandContext& context);
void AddServeStudyCommand(CLI::App& app, CommandContext& context);
void AddShardCommand(CLI::App& app, CommandContext& context);
void AddShardTasksCommand(CLI::App& app, CommandContext& context);
void AddShardStudyCommand(CLI::App& app, CommandContext& context);
void AddDataflowCommand(CLI::App& app, CommandContext& context);
void AddExploreCommand(CLI::App& app, CommandContext& context);
void AddArchitectCommand(CLI::App& app, CommandContext& context);
void AddPlaceCommand(CLI::App& app, CommandContext& context);
void AddSearchCommand(CLI::App& app, CommandContext& context);
void AddGenerateCommand(CLI::App& app, CommandContext& context);
void AddSweepCommand(CLI::App& app, CommandContext& context);
void AddCalibrateCommand(CLI::App& app, CommandContext& context);
// Subcommands of calibrate.
void AddServingCalibration(CLI::App& calibrate, CommandContext& context);
void AddPowerCalibration(CLI::App& calibrate, CommandContext& context);
void AddTraceOverheads(CLI::App& calibrate, CommandContext& context);

// Formats the examples that every command's help ends with.
std::string Examples(std::initializer_list<const char*> lines);

}  // namespace foretrace
