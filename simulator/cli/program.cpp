#include "simulator/cli/program.h"
#include "simulator/console/version.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <exception>
#include <filesystem>
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

// The command that the line names, as far as it was recognised.
const ::CLI::App* Chosen(const ::CLI::App& app) {
  const ::CLI::App* chosen = &app;
  while (!chosen->get_subcommands().empty()) chosen = chosen->get_subcommands().front();
  return chosen;
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

// `; did you mean "NAME"?`, or nothing.
std::string Suggestion(std::string_view typed, const std::vector<std::string>& names) {
  const std::string nearest = NearestName(typed, names);
  return nearest.empty() ? "" : fmt::format("; did you mean \"{}\"?", nearest);
}

// Of an option that the command has not, the one that was meant.
std::string NearestOption(const ::CLI::App& command, std::string_view typed) {
  std::vector<std::string> names;
  for (const ::CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  // It has that option; something else is wrong.
  if (std::ranges::find(names, typed) != names.end()) return "";
  return Suggestion(typed, names);
}

// CLI11's words; but where an option is unknown, that: what else is missing or left over follows
// from it.
std::string WhatIsWrong(const ::CLI::App& app, const ::CLI::ParseError& error) {
  const ::CLI::App& command = *Chosen(app);
  for (const std::string& left : command.remaining()) {
    if (!left.starts_with("--") || left.size() < 3) continue;
    const std::string name = left.substr(0, left.find('='));
    return fmt::format("unknown option {}{}", name, NearestOption(command, name));
  }
  return error.what();
}

std::vector<std::string> NamesBelow(const ::CLI::App& app) {
  std::vector<std::string> names;
  for (const ::CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
  return names;
}

// Of a command that has kinds ("calibrate"), whose kind is missing or none; empty: another
// complaint.
std::string MissingKind(const ::CLI::App& app, const std::vector<std::string>& arguments,
                        const ::CLI::ParseError& error) {
  const ::CLI::App* command = Chosen(app);
  const std::vector<std::string> kinds = NamesBelow(*command);
  if (command == &app || kinds.empty() || error.get_name() != "RequiredError") return "";
  const std::string typed = arguments.size() > 1 ? arguments[1] : "";
  const std::string known = fmt::format("{}", fmt::join(kinds, ", "));
  if (typed.empty() || typed.starts_with('-')) {
    return fmt::format("{} needs a kind: {}", CommandName(app), known);
  }
  return fmt::format("{}: unknown kind \"{}\"; there are {}{}", CommandName(app), typed, known,
                     Suggestion(typed, kinds));
}

// What is wrong with the command line, in one line.
std::string Complaint(const ::CLI::App& app, const std::vector<std::string>& arguments,
                      const ::CLI::ParseError& error) {
  const std::string kind = MissingKind(app, arguments, error);
  if (!kind.empty()) return fmt::format("{} (see foretrace {} --help)", kind, CommandName(app));
  const std::string typed = arguments.empty() ? "" : arguments.front();
  if (typed.empty() || typed.starts_with('-') || !app.get_subcommands().empty()) {
    const std::string name = CommandName(app);
    return fmt::format("{} (see foretrace {}{}--help)", WhatIsWrong(app, error), name,
                       name.empty() ? "" : " ");
  }
  return fmt::format("unknown command \"{}\"{} (see foretrace --help)", typed,
                     Suggestion(typed, NamesBelow(app)));
}

// Knows whether anything was printed.
class RecordedConsole : public Console {
 public:
  explicit RecordedConsole(Console& console) : console_(console) {}
  absl::Status Print(std::string_view text) override {
    printed_ = true;
    return console_.Print(text);
  }
  TextStyle style() const override { return console_.style(); }
  void Progress(std::string_view what, int64_t done, int64_t total) override {
    console_.Progress(what, done, total);
  }
  bool printed() const { return printed_; }

 private:
  Console& console_;
  bool printed_ = false;
};

int ExitCode(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return 0;
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kUnavailable:
      return kExitInfeasible;
    case absl::StatusCode::kInternal:
      return kExitDefect;
    case absl::StatusCode::kCancelled:
      return kExitInterrupted;
    default:
      return kExitBadInput;
  }
}

absl::Status RunCommand(const ::CLI::App& app, CommandContext& context) {
  const ::CLI::App* command = &app;
  while (!command->get_subcommands().empty()) {
    command = command->get_subcommands().front();
    FORETRACE_RETURN_IF_ERROR(CheckValues(*command));
  }
  context.inputs = InputsOf(*command);
  FORETRACE_RETURN_IF_ERROR(CheckOutputs(*command, context.inputs));
  FORETRACE_RETURN_IF_ERROR(NamingAnInput(*command, context.run()));
  if (context.answer_files->asked() && !context.answer_files->written()) {
    return Infeasible(
        "{}: this form of the command has no page or tables; leave out --html and --csv",
        CommandName(app));
  }
  return absl::OkStatus();
}

// --html and --csv, for every command whose answer is a document.
void AddAnswerOptions(::CLI::App& app, AnswerFiles& files) {
  for (::CLI::App* command : app.get_subcommands({})) {
    AddAnswerOptions(*command, files);
    if (command->get_option_no_throw("--json") == nullptr) continue;
    command
        ->add_option("--html", files.page,
                     "also the answer as one page for a browser, in this file")
        ->group(kOutputGroup)
        ->type_name("FILE");
    command->add_option("--csv", files.tables, "also its tables, a file each in this folder")
        ->group(kOutputGroup)
        ->type_name("DIR");
  }
}

// All commands, of which `chosen` alone has its options.
struct CommandLine {
  CommandLine(int width, const std::string& chosen, CommandContext& context)
      : app("Predicts how long a distributed training iteration takes, from traces.", "foretrace"),
        commands(&app, chosen) {
    app.formatter(std::make_shared<HelpFormatter>(width));
    app.set_version_flag("--version", std::string("foretrace ") + kVersion);
    app.require_subcommand(1);
    app.fallthrough(false);
    for (const AddCommand add : AllCommands()) add(commands, context);
    AddAnswerOptions(app, answer_files);
  }

  ::CLI::App app;
  CLI::App commands;
  AnswerFiles answer_files;
};

std::string HelpOn(int width, const std::string& command) {
  CommandContext unused;
  const CommandLine line(width, command.substr(0, command.find(' ')), unused);
  if (command.empty()) return line.app.help();
  const ::CLI::App* at = &line.app;
  std::string before = "foretrace";
  for (std::string_view rest = command; !rest.empty();) {
    const std::string word(rest.substr(0, rest.find(' ')));
    rest.remove_prefix(std::min(rest.size(), word.size() + 1));
    const auto below = at->get_subcommands({});
    const auto found = std::find_if(below.begin(), below.end(), [&](const ::CLI::App* each) {
      return each->get_name() == word;
    });
    if (found == below.end()) return "";
    at = *found;
    if (!rest.empty()) before += " " + word;
  }
  return at->help(before);
}

absl::Status StatusOf(const ProgramResult& result) {
  switch (result.exit_code) {
    case 0:
      return absl::OkStatus();
    case kExitBadInput:
      return absl::InvalidArgumentError(result.error);
    case kExitInfeasible:
      return absl::FailedPreconditionError(result.error);
    case kExitInterrupted:
      return absl::CancelledError(result.error);
    default:
      return absl::InternalError(result.error);
  }
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
    if (run.arguments.size() > 1) {
      return {kExitBadInput, "--version goes alone (see foretrace --help)"};
    }
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
  } catch (const std::filesystem::filesystem_error& e) {
    // Such as the absolute path of a file where the working folder is gone.
    return InvalidInput("{}: {}", e.path1().string(), e.code().message());
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
  CommandContext context;
  RecordedConsole recorded(*run.console);
  context.console = &recorded;
  context.stop = run.stop;
  context.traces = run.traces;
  context.within_another = run.within_another;
  const int width = run.console->style().width;
  context.help = [width](const std::string& command) { return HelpOn(width, command); };
  context.run_command = [&run](std::vector<std::string> arguments, Console& console) {
    return StatusOf(RunProgram({std::move(arguments), &console, run.stop, run.traces, true}));
  };
  CommandLine line(width, run.arguments.empty() ? "" : run.arguments.front(), context);
  ::CLI::App& app = line.app;
  bool answered = false;
  ProgramResult result = Parse(app, run, answered);
  context.answer_files = &line.answer_files;
  if (!answered) {
    result = ResultOf(Guarded(app, context));
  }
  if (result.exit_code == 0) return result;
  const bool json =
      std::find(run.arguments.begin(), run.arguments.end(), "--json") != run.arguments.end();
  if (json && !recorded.printed() && !run.stop.stop_requested()) {
    // Where the answer cannot be written either, the line on standard error says enough.
    run.console->PrintJson(CommandName(app), ErrorJson(result.exit_code, result.error))
        .IgnoreError();
  }
  return result;
}

}  // namespace foretrace
