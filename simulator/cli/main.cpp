// foretrace: predicts how long a distributed training iteration takes.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "simulator/base/error.h"
#include "simulator/base/nearest_name.h"
#include "simulator/base/status_macros.h"
#include "simulator/base/utf8.h"
#include "simulator/cli/arguments.h"
#include "simulator/cli/command.h"
#include "simulator/cli/commands.h"
#include "simulator/cli/help.h"
#include "simulator/cli/interruption.h"
#include "simulator/cli/options.h"
#include "simulator/cli/output.h"

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

// 0 success, 1 a defect in foretrace, 2 bad input, 3 a request that cannot be met, 130 interrupted.
int ExitCode(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return 0;
    case absl::StatusCode::kFailedPrecondition:
      return 3;
    case absl::StatusCode::kInternal:
      return 1;
    case absl::StatusCode::kCancelled:
      return 130;
    default:
      return 2;
  }
}

// "calibrate trace-overheads" of the command line; empty before one was recognised.
std::string CommandName(const CLI::App& app) {
  std::string name;
  for (const CLI::App* at = &app; !at->get_subcommands().empty();) {
    at = at->get_subcommands().front();
    name += (name.empty() ? "" : " ") + at->get_name();
  }
  return name;
}

// One line on standard error, and where JSON was asked for the same as a document.
int Fail(const std::string& command, bool json, int exit_code, const std::string& message) {
  std::string text = message;
  std::replace(text.begin(), text.end(), '\n', ' ');
  constexpr size_t kLongest = 2000;  // arguments and names may be of any length
  const std::string line = text.size() > kLongest ? foretrace::Excerpt(text, kLongest) + " ..."
                                                  : foretrace::OneLine(text);
  if (json) {
    // Where standard output cannot be written either, the line on standard error says enough.
    foretrace::PrintJson(command, foretrace::ErrorJson(exit_code, line)).IgnoreError();
  }
  fmt::print(stderr, "foretrace: {}: {}\n", exit_code == 1 ? "internal error" : "error", line);
  return exit_code;
}

absl::Status RunCommand(const CLI::App& app, foretrace::CommandContext& context) {
  const CLI::App* command = &app;
  while (!command->get_subcommands().empty()) {
    command = command->get_subcommands().front();
    FORETRACE_RETURN_IF_ERROR(foretrace::CheckValues(*command));
  }
  context.inputs = foretrace::InputsOf(*command);
  FORETRACE_RETURN_IF_ERROR(foretrace::CheckOutputs(*command, context.inputs));
  return foretrace::NamingAnInput(*command, context.run());
}

int Run(int argc, char** argv) {
  CLI::App app("Predicts how long a distributed training iteration takes, from traces.",
               "foretrace");
  app.formatter(std::make_shared<foretrace::HelpFormatter>());
  app.set_version_flag("--version", std::string("foretrace ") + foretrace::kVersion);
  app.require_subcommand(1);
  app.fallthrough(false);
  foretrace::CommandContext context;
  foretrace::CLI::App commands(&app);
  for (const foretrace::AddCommand add : foretrace::AllCommands()) add(commands, context);
  context.help = [&app](const std::string& command) {
    if (command.empty()) return app.help();
    for (const CLI::App* each : app.get_subcommands({})) {
      if (each->get_name() == command) return each->help("foretrace");
    }
    return std::string();
  };
  const bool json = std::find(argv, argv + argc, std::string_view("--json")) != argv + argc;
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp& e) {
    return app.exit(e);
  } catch (const CLI::CallForAllHelp& e) {
    return app.exit(e);
  } catch (const CLI::CallForVersion& e) {
    return app.exit(e);
  } catch (const CLI::ParseError& e) {
    return Fail(CommandName(app), json, 2, Complaint(app, argc, argv, e));
  }
  const foretrace::Interruption interruption;
  context.stop = interruption.token();
  absl::Status status;
  try {
    status = RunCommand(app, context);
  } catch (const std::bad_alloc&) {
    status = foretrace::InvalidInput("{}: out of memory", CommandName(app));
  } catch (const std::exception& e) {
    status = absl::InternalError(e.what());
  }
  if (interruption.exit_code() != 0) {
    fmt::print(stderr, "foretrace: interrupted\n");
    return interruption.exit_code();
  }
  if (status.ok()) return 0;
  return Fail(CommandName(app), json, ExitCode(status), std::string(status.message()));
}

}  // namespace

int main(int argc, char** argv) { return Run(argc, argv); }
