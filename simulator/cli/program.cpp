#include "simulator/cli/program.h"
#include "simulator/console/version.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "simulator/base/error.h"
#include "simulator/base/nearest_name.h"
#include "simulator/base/status_macros.h"
#include "simulator/base/utf8.h"
#include "simulator/cli/commands.h"
#include "simulator/console/arguments.h"
#include "simulator/console/command.h"
#include "simulator/console/help.h"
#include "simulator/console/options.h"
#include "simulator/console/output.h"

namespace foretrace {
namespace {

// What is wrong with the command line, in one line.
std::string Complaint(const ::CLI::App& app, const std::vector<std::string>& arguments,
                      const ::CLI::ParseError& error) {
  const std::string typed = arguments.empty() ? "" : arguments.front();
  if (typed.empty() || typed.starts_with('-') || !app.get_subcommands().empty()) {
    return fmt::format("{} (see foretrace --help)", error.what());
  }
  std::vector<std::string> names;
  for (const ::CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
  const std::string nearest = NearestName(typed, names);
  return fmt::format("unknown command \"{}\"{} (see foretrace --help)", typed,
                     nearest.empty() ? "" : fmt::format("; did you mean \"{}\"?", nearest));
}

int ExitCode(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return 0;
    case absl::StatusCode::kFailedPrecondition:
      return kExitInfeasible;
    case absl::StatusCode::kInternal:
      return kExitDefect;
    case absl::StatusCode::kCancelled:
      return kExitInterrupted;
    default:
      return kExitBadInput;
  }
}

// "calibrate trace-overheads" of the command line; empty before one was recognised.
std::string CommandName(const ::CLI::App& app) {
  std::string name;
  for (const ::CLI::App* at = &app; !at->get_subcommands().empty();) {
    at = at->get_subcommands().front();
    name += (name.empty() ? "" : " ") + at->get_name();
  }
  return name;
}

absl::Status RunCommand(const ::CLI::App& app, CommandContext& context) {
  const ::CLI::App* command = &app;
  while (!command->get_subcommands().empty()) {
    command = command->get_subcommands().front();
    FORETRACE_RETURN_IF_ERROR(CheckValues(*command));
  }
  context.inputs = InputsOf(*command);
  FORETRACE_RETURN_IF_ERROR(CheckOutputs(*command, context.inputs));
  return NamingAnInput(*command, context.run());
}

// `message` as one line of bounded length: arguments and names may be of any.
std::string ErrorLine(std::string message) {
  constexpr size_t kLongest = 2000;
  std::replace(message.begin(), message.end(), '\n', ' ');
  return message.size() > kLongest ? Excerpt(message, kLongest) + " ..." : OneLine(message);
}

ProgramResult Parse(::CLI::App& app, const ProgramRun& run, bool& answered) {
  answered = true;
  try {
    // CLI11 takes them last first.
    app.parse(std::vector<std::string>(run.arguments.rbegin(), run.arguments.rend()));
  } catch (const ::CLI::CallForHelp&) {
    return ResultOf(run.console->Print(app.help()));
  } catch (const ::CLI::CallForVersion& e) {
    return ResultOf(run.console->Print(std::string(e.what()) + "\n"));
  } catch (const ::CLI::ParseError& e) {
    return {kExitBadInput, ErrorLine(Complaint(app, run.arguments, e))};
  }
  answered = false;
  return {};
}

absl::Status Guarded(const ::CLI::App& app, CommandContext& context) {
  if (context.stop.stop_requested()) return absl::CancelledError("interrupted");
  try {
    return RunCommand(app, context);
  } catch (const std::bad_alloc&) {
    return InvalidInput("{}: out of memory", CommandName(app));
  } catch (const std::exception& e) {
    return absl::InternalError(e.what());
  }
}

}  // namespace

ProgramResult ResultOf(const absl::Status& status) {
  if (status.ok()) return {};
  return {ExitCode(status), ErrorLine(std::string(status.message()))};
}

ProgramResult RunProgram(const ProgramRun& run) {
  ::CLI::App app("Predicts how long a distributed training iteration takes, from traces.",
                 "foretrace");
  app.formatter(std::make_shared<HelpFormatter>(run.console->style().width));
  app.set_version_flag("--version", std::string("foretrace ") + kVersion);
  app.require_subcommand(1);
  app.fallthrough(false);
  CommandContext context;
  context.console = run.console;
  context.stop = run.stop;
  context.traces = run.traces;
  context.help = [&app](const std::string& command) {
    if (command.empty()) return app.help();
    for (const ::CLI::App* each : app.get_subcommands({})) {
      if (each->get_name() == command) return each->help("foretrace");
    }
    return std::string();
  };
  CLI::App commands(&app);
  for (const AddCommand add : AllCommands()) add(commands, context);
  bool answered = false;
  ProgramResult result = Parse(app, run, answered);
  if (!answered) {
    result = ResultOf(Guarded(app, context));
  }
  if (result.exit_code == 0) return result;
  const bool json =
      std::find(run.arguments.begin(), run.arguments.end(), "--json") != run.arguments.end();
  if (json && !run.stop.stop_requested()) {
    // Where the answer cannot be written either, the line on standard error says enough.
    run.console->PrintJson(CommandName(app), ErrorJson(result.exit_code, result.error))
        .IgnoreError();
  }
  return result;
}

}  // namespace foretrace
