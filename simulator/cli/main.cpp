// foretrace: predicts how long a distributed training iteration takes.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "simulator/base/nearest_name.h"
#include "simulator/cli/command.h"
#include "simulator/cli/commands.h"
#include "simulator/cli/options.h"

namespace {

// What is wrong with the command line, in one line.
std::string Complaint(const CLI::App& app, int argc, char** argv, const CLI::ParseError& error) {
  const std::string typed = argc > 1 ? argv[1] : "";
  if (typed.empty() || typed.starts_with('-') || !app.get_subcommands().empty()) {
    return fmt::format("{} (see foretrace --help)", error.what());
  }
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
  const std::string nearest = foretrace::NearestName(typed, names);
  return fmt::format("unknown command \"{}\"{} (see foretrace --help)", typed,
                     nearest.empty() ? "" : fmt::format("; did you mean \"{}\"?", nearest));
}

// 0 success, 1 a defect in foretrace, 2 bad input, 3 a request that cannot be met.
int ExitCode(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return 0;
    case absl::StatusCode::kFailedPrecondition:
      return 3;
    case absl::StatusCode::kInternal:
      return 1;
    default:
      return 2;
  }
}

int Run(int argc, char** argv) {
  CLI::App app("Predicts how long a distributed training iteration takes, from traces.",
               "foretrace");
  app.set_version_flag("--version", std::string("foretrace ") + foretrace::kVersion);
  app.require_subcommand(1);
  app.fallthrough(false);
  foretrace::CommandContext context;
  foretrace::CLI::App commands(&app);
  for (const foretrace::AddCommand add : foretrace::AllCommands()) add(commands, context);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp& e) {
    return app.exit(e);
  } catch (const CLI::CallForAllHelp& e) {
    return app.exit(e);
  } catch (const CLI::CallForVersion& e) {
    return app.exit(e);
  } catch (const CLI::ParseError& e) {
    fmt::print(stderr, "foretrace: error: {}\n", Complaint(app, argc, argv, e));
    return 2;
  }
  const absl::Status status = context.run();
  if (!status.ok()) {
    std::string message(status.message());
    for (char& c : message) {
      if (c == '\n' || c == '\r') c = ' ';
    }
    fmt::print(stderr, "foretrace: error: {}\n", message);
  }
  return ExitCode(status);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return Run(argc, argv);
  } catch (const std::bad_alloc&) {
    fmt::print(stderr, "foretrace: error: out of memory\n");
    return 2;
  } catch (const std::exception& e) {
    fmt::print(stderr, "foretrace: internal error: {}\n", e.what());
    return 1;
  }
}
