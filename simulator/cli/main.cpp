// foretrace: predicts how long a distributed training iteration takes.

#include <fmt/format.h>

#include <cstdio>

#include "simulator/cli/interruption.h"
#include "simulator/cli/program.h"
#include "simulator/console/output.h"

int main(int argc, char** argv) {
  const foretrace::Interruption interruption;
  foretrace::TerminalConsole console;
  const foretrace::ProgramResult result =
      foretrace::RunProgram({.arguments = {argv + 1, argv + argc},
                             .console = &console,
                             .stop = interruption.token(),
                             .traces = nullptr});
  console.ClearProgress();
  if (interruption.exit_code() != 0) {
    fmt::print(stderr, "foretrace: interrupted\n");
    return interruption.exit_code();
  }
  if (result.exit_code != 0) {
    fmt::print(stderr, "foretrace: {}: {}\n",
               result.exit_code == foretrace::kExitDefect ? "internal error" : "error",
               result.error);
  }
  return result.exit_code;
}
