#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>

#include "simulator/base/atomic_file.h"
#include "simulator/base/error.h"
#include "simulator/base/input.h"
#include "simulator/base/shipped.h"
#include "simulator/base/status_macros.h"
#include "simulator/console/command.h"
#include "simulator/console/options.h"
#include "simulator/console/processes.h"
#include "simulator/planning/files/journaled_runner.h"
#include "simulator/planning/sweep/sweep.h"
#include "simulator/planning/sweep/sweep_report.h"

namespace foretrace {
namespace {

namespace fs = std::filesystem;

struct SweepOptions {
  std::vector<std::string> over, columns;
  std::string scaling, journal;
  int jobs = 1;
  bool json = false, strict = false;
};

// Takes an answer instead of a terminal.
class Captured : public Console {
 public:
  absl::Status Print(std::string_view text) override {
    text_ += text;
    return absl::OkStatus();
  }
  TextStyle style() const override { return {}; }
  void Progress(std::string_view, int64_t, int64_t) override {}
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

class TemporaryFolder {
 public:
  static absl::StatusOr<std::unique_ptr<TemporaryFolder>> Make() {
    std::error_code error;
    std::string path = (fs::temp_directory_path(error) / "foretrace-sweep-XXXXXX").string();
    if (error || mkdtemp(path.data()) == nullptr) {
      return InvalidInput("sweep: no temporary folder can be made; set TMPDIR to one that can");
    }
    return std::make_unique<TemporaryFolder>(path);
  }
  explicit TemporaryFolder(std::string path) : path_(std::move(path)) {}
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Bytes of every file below a folder, in order of their paths within it.
std::string ContentsOf(const fs::path& folder) {
  std::error_code error;
  std::vector<std::string> entries;
  for (const auto& entry : fs::recursive_directory_iterator(folder, error)) {
    if (!entry.is_regular_file(error)) continue;
    const absl::StatusOr<std::string> text = ReadBinaryFile(entry.path(), kMaxTableBytes);
    entries.push_back(fmt::format("{} {:016x}", entry.path().lexically_relative(folder).string(),
                                  text.ok() ? Fingerprint(*text) : 0));
  }
  std::sort(entries.begin(), entries.end());
  return fmt::format("{}\n", fmt::join(entries, "\n"));
}

// All that answers depend on besides the point: the arguments, the files that they name, and the
// data that commands find by name.
std::string Question(const SweptCommand& swept, const std::vector<std::string>& arguments,
                     const SweepOptions& o) {
  std::string question =
      fmt::format("{}\n{}\n", fmt::join(arguments, "\n"), fmt::join(o.columns, "\n"));
  for (const SweepAxis& axis : swept.axes()) question += axis.name + "\n";
  for (const std::string& argument : arguments) {
    std::error_code error;
    if (fs::is_regular_file(argument, error)) {
      const absl::StatusOr<std::string> text = ReadTextFile(argument, kMaxTableBytes);
      if (text.ok()) question += fmt::format("{:016x}\n", Fingerprint(*text));
    } else if (fs::is_directory(argument, error)) {
      question += ContentsOf(argument);
    }
  }
  for (const std::string& data : DataFolders()) {
    for (const char* folder : {"topologies", "calibration", "traces/workloads"}) {
      question += ContentsOf(fs::path(data) / folder);
    }
  }
  return question;
}

absl::StatusOr<std::string> Evaluate(const SweptCommand& swept, const SweepOptions& o, size_t point,
                                     const std::string& folder, const CommandContext& context) {
  FORETRACE_ASSIGN_OR_RETURN(std::vector<std::string> arguments, swept.Arguments(point, folder));
  arguments.emplace_back("--json");
  Captured answer;
  absl::Status status = context.run_command(std::move(arguments), answer);
  SweepPoint out;
  if (status.ok()) {
    absl::StatusOr<std::vector<SweepValue>> values = ReadColumns(answer.text(), o.columns);
    status = values.status();
    if (values.ok()) out.values = *std::move(values);
  }
  out.feasible = status.ok();
  if (out.feasible) return Encode(out);
  out.failed = absl::IsInvalidArgument(status);
  out.why = swept.InGivenNames(std::string(status.message()), folder);
  if (absl::IsFailedPrecondition(status) || (out.failed && !o.strict)) return Encode(out);
  if (absl::IsCancelled(status)) return status;
  return absl::Status(status.code(), fmt::format("{}: {}", swept.Label(point), out.why));
}

absl::StatusOr<std::vector<SweepPoint>> Evaluate(const SweptCommand& swept, const SweepOptions& o,
                                                 const std::string& question,
                                                 const Processes& processes,
                                                 const CommandContext& context) {
  std::optional<LineJournal> journal;
  if (!o.journal.empty()) {
    FORETRACE_ASSIGN_OR_RETURN(
        LineJournal opened,
        LineJournal::Open(o.journal, {"sweep journal 1", question, "command, files"}, processes));
    journal.emplace(std::move(opened));
  }
  FORETRACE_ASSIGN_OR_RETURN(const auto folder, TemporaryFolder::Make());
  const ThreadRunner threads(o.jobs, context.stop);
  const JournaledRunner runner(threads, processes, journal.has_value() ? &*journal : nullptr);
  const size_t batch = threads.threads() * static_cast<size_t>(processes.size());
  std::vector<SweepPoint> points;
  while (points.size() < swept.points()) {
    const size_t first = points.size(), end = std::min(first + batch, swept.points());
    std::vector<std::string> keys;
    for (size_t i = first; i < end; ++i) keys.push_back(swept.Label(i));
    FORETRACE_ASSIGN_OR_RETURN(const std::vector<std::string> answers,
                               runner.Run(keys, [&](size_t i, size_t) {
                                 return Evaluate(swept, o, first + i, folder->path(), context);
                               }));
    for (const std::string& answer : answers) {
      SweepPoint point;
      if (!Decode(answer, o.columns, point)) {
        return InvalidInput("{}: \"{}\" is no result; remove the file to start anew", o.journal,
                            keys[points.size() - first]);
      }
      points.push_back(std::move(point));
    }
    context.console->Progress("points", static_cast<int64_t>(points.size()),
                              static_cast<int64_t>(swept.points()));
  }
  return points;
}

// That not every point is wrong: then there is no table to show.
absl::Status SomeRan(const SweepReport& report) {
  for (const SweepPoint& point : report.points) {
    if (!point.failed) return absl::OkStatus();
  }
  return InvalidInput("{}: {}{}", report.swept->Label(0), report.points.front().why,
                      report.points.size() > 1 ? "; the other points failed, too" : "");
}

absl::Status SomeCanBeMet(const SweepReport& report) {
  const SweepPoint* infeasible = nullptr;
  for (const SweepPoint& point : report.points) {
    if (point.feasible) return absl::OkStatus();
    if (!point.failed && infeasible == nullptr) infeasible = &point;
  }
  return Infeasible("sweep: no point can be met; the first: {}", infeasible->why);
}

absl::Status RunSweep(SweepOptions o, std::vector<std::string> arguments,
                      const CommandContext& context) {
  if (arguments.empty() || arguments.front().starts_with('-')) {
    return InvalidInput("sweep: which command? as in: sweep predict run1/ --over cpu-scale=1,2");
  }
  std::string help = context.help(arguments.front());
  if (arguments.size() > 1) {
    // `calibrate kernel` has options of its own.
    const std::string below = context.help(arguments[0] + " " + arguments[1]);
    if (!below.empty()) help = below;
  }
  if (help.empty()) return InvalidInput("sweep: there is no command {}", arguments.front());
  if (arguments.front() == "sweep") {
    return InvalidInput("sweep: a sweep of sweeps; give several --over");
  }
  if (o.strict && HasOption(help, "strict")) arguments.emplace_back("--strict");
  std::vector<SweepAxis> axes;
  for (const std::string& text : o.over) {
    FORETRACE_ASSIGN_OR_RETURN(axes.emplace_back(), ParseSweepAxis(text));
  }
  FORETRACE_ASSIGN_OR_RETURN(const SweptCommand swept,
                             SweptCommand::Make(arguments, std::move(axes), help));
  if (o.columns.empty()) o.columns = DefaultColumns(swept.command());
  if (o.columns.empty()) {
    return InvalidInput(
        "sweep: which numbers of {}? name them with --value, such as --value "
        "iteration_time_us",
        swept.command());
  }
  FORETRACE_ASSIGN_OR_RETURN(const std::unique_ptr<Processes> processes, context.StartProcesses());
  SweepReport report;
  FORETRACE_ASSIGN_OR_RETURN(
      report.points, Evaluate(swept, o, o.journal.empty() ? "" : Question(swept, arguments, o),
                              *processes, context));
  if (processes->rank() != 0) {
    context.answer_files->LeaveToAnother();
    return absl::OkStatus();
  }
  report.swept = &swept;
  report.columns = o.columns;
  FORETRACE_RETURN_IF_ERROR(SomeRan(report));
  FORETRACE_RETURN_IF_ERROR(AddScaling(o.scaling, report));
  FORETRACE_RETURN_IF_ERROR(context.WriteAnswer("sweep", [&] { return SweepJson(report); }));
  FORETRACE_RETURN_IF_ERROR(
      o.json ? context.console->PrintJson("sweep", SweepJson(report))
             : context.console->Print(SweepText(report, context.console->style())));
  return SomeCanBeMet(report);
}

}  // namespace

void AddSweepCommand(CLI::App& app, CommandContext& context) {
  auto o = std::make_shared<SweepOptions>();
  CLI::App* command = app.add_subcommand(
      "sweep", "another command over values of its options or of its platform, as a table");
  command->allow_extras();
  command
      ->add_option(
          "--over", o->over,
          "NAME=VALUES: an option of the command, {NAME} within its arguments, or a fact "
          "of its platform (links.nvlink4.bandwidth_GBps) or the platform's accelerator "
          "(accelerator.memory.hbm3.bandwidth_GBps); VALUES: 1,2,4 or 1:8 or 1:8:x2; several: all "
          "combinations")
      ->required()
      ->allow_extra_args(false)
      ->type_name("NAME=VALUES");
  command
      ->add_option("--value", o->columns,
                   "a number or text of the command's --json, such as ranks[0].busy_us; several: "
                   "a column each")
      ->allow_extra_args(false)
      ->type_name("PATH");
  command
      ->add_option("--scaling", o->scaling,
                   "efficiency over the first --over: weak (same time is 1) or strong (time by as "
                   "much less as the value is more is 1)")
      ->check(CLI::IsMember({"weak", "strong"}));
  command->add_flag("--strict", o->strict,
                    "end at the first point that fails, where a table would list it; also of the "
                    "command, where it has --strict");
  command->add_option("--jobs", o->jobs, "runs at once; results are the same for any number")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  command
      ->add_option("--journal", o->journal,
                   "file of what was run; with it an interrupted sweep goes on")
      ->group(kOutputGroup)
      ->type_name("FILE");
  command->add_flag("--json", o->json, "one JSON document instead of the table");
  command->footer(Examples({
      "foretrace sweep predict traces/samples/dlrm_8rank --over cpu-scale=0.5,1,2",
      "foretrace sweep predict run1/ --what-if 'name=gemm:x{f}' --over f=0.25:1:0.25",
      "foretrace sweep collective all_reduce --topology dgx-h100 --bytes 1GB "
      "--over ranks=2:16:x2 --over links.ndr.bandwidth_GBps=25,50,100",
      "foretrace sweep search gpt3-175b --platform dgx-a100 --global-batch 1536 "
      "--over gpus=64:512:x2 --scaling strong --csv scaling/",
      "foretrace sweep serve llama3-8b --platform dgx-h100 --rate 5 "
      "--over accelerator.memory.hbm3.bandwidth_GBps=3350,4800,6700",
  }));
  command->callback([o, command, &context] {
    context.run = [o, command, &context] { return RunSweep(*o, command->remaining(), context); };
  });
}

}  // namespace foretrace
