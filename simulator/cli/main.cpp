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
    std::fputs("foretrace: interrupted\n", stderr);
    return interruption.exit_code();
  }
  if (result.exit_code != 0) {
    // Not fmt::print, which throws where nothing can be written.
    const std::string text = fmt::format(
        "foretrace: {}: {}\n",
        result.exit_code == foretrace::kExitDefect ? "internal error" : "error", result.error);
    std::fputs(text.c_str(), stderr);
  }
  return result.exit_code;
}
