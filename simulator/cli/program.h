#pragma once
// The program behind a command line; what main and the library for other programs share.

#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "simulator/console/output.h"

namespace foretrace {

class TraceStore;

// Exit statuses of the program.
inline constexpr int kExitDefect = 1;
inline constexpr int kExitBadInput = 2;
inline constexpr int kExitInfeasible = 3;
inline constexpr int kExitInterrupted = 130;

struct ProgramRun {
  std::vector<std::string> arguments;  // without the program's name
  Console* console = nullptr;          // takes the answer
  std::stop_token stop;
  // Imported already: taken instead of what the command line names as TRACES.
  std::shared_ptr<const TraceStore> traces;
  bool within_another = false;  // a command of another, as CommandContext's run_command
};

// 0, or an exit status with the one line that says what is wrong, as it stands on standard error.
struct ProgramResult {
  int exit_code = 0;
  std::string error;
};

// The exit status and line of an error; 0 for success.
ProgramResult ResultOf(const absl::Status& status);

// Parses and runs. Runs that share no console, no traces and no output files may go on in several
// threads at once.
ProgramResult RunProgram(const ProgramRun& run);

}  // namespace foretrace
