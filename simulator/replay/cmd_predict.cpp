#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "simulator/base/atomic_file.h"
#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/console/command.h"
#include "simulator/console/options.h"
#include "simulator/console/output.h"
#include "simulator/replay/attribution/attribution.h"
#include "simulator/replay/durations/energy_use.h"
#include "simulator/replay/memory/memory_use.h"
#include "simulator/replay/run.h"
#include "simulator/replay/step_explanation.h"
#include "simulator/replay/step_report.h"
#include "simulator/replay/timeline_request.h"
#include "simulator/replay/trace_options.h"
#include "simulator/replay/what_if/sensitivity.h"
#include "simulator/report/report_json.h"
#include "simulator/report/text_report.h"

namespace foretrace {
namespace {

// Kinds of work of each sort that --sensitivity changes.
constexpr size_t kSweptClasses = 20;

struct PredictOptions {
  TraceOptions traces;
  SimulationOptions simulation;
  bool json = false;
  TimelineRequest timeline;
  int64_t iteration = -1;
  size_t top = 10;
  bool sensitivity = false;
  std::string by, flamegraph;
  bool memory = false, energy = false;
  std::vector<std::string> memory_if;

  bool attributes() const { return !by.empty() || !flamegraph.empty(); }
};

// Time by what --by names, for the reported iteration.
absl::StatusOr<Attribution> AttributeStep(const PredictOptions& options, const EventTable& table,
                                          const Prediction& prediction,
                                          const PredictionReport& report,
                                          std::span<const ProfileExtras> extras) {
  static const std::map<std::string, AttributeTo> kKinds = {
      {"", AttributeTo::kModule},      {"module", AttributeTo::kModule},
      {"line", AttributeTo::kLine},    {"range", AttributeTo::kRange},
      {"op", AttributeTo::kOp},        {"kernel", AttributeTo::kKernel},
      {"stream", AttributeTo::kStream}};
  std::vector<IterationWindow> windows, marks;
  for (const RankSummary& rank : report.ranks) {
    windows.push_back(rank.window);
    marks.push_back(rank.marks);
  }
  FORETRACE_ASSIGN_OR_RETURN(
      Attribution attribution,
      Attribute(kKinds.at(options.by), {&table, &prediction, windows, marks, &report.critical_path,
                                        extras, report.window}));
  if (!options.flamegraph.empty()) {
    FORETRACE_RETURN_IF_ERROR(WriteFile(options.flamegraph, SpeedscopeJson(attribution)));
  }
  return attribution;
}

// `object`, a JSON object, with one more member.
std::string WithMember(std::string object, std::string_view key, const std::string& value) {
  while (!object.ends_with('}')) object.pop_back();
  object.pop_back();
  return fmt::format("{},\"{}\":{}}}", object, key, value);
}

absl::Status WriteTimelines(const PredictOptions& options, const SimulationSetup& setup,
                            TimelineRun run, std::span<const ProfileExtras> extras,
                            const ProtectedFiles& inputs) {
  // Groups of --ranks are drawn as recorded, so that their transfers are others than the links'.
  if (!setup.what_if().scale_out().has_value()) run.topology = setup.topology();
  std::vector<std::vector<AllocatedMemory>> memory;
  if (options.memory) memory = MemoryOverTime(run.table.store(), run.prediction, extras);
  run.memory = memory;
  return options.timeline.Write(run, inputs);
}

// The recording lacks durations, those of all device work among them.
bool LostDurations(const TraceStore& store, const Prediction& prediction) {
  if (!store.diagnostics().entries().contains(Repair::kMissingDuration)) return false;
  for (const RankProgram& rank : prediction.job.program.ranks) {
    for (const Item& item : rank.items) {
      const bool device = item.kind == ItemKind::kDevice || item.kind == ItemKind::kComm;
      if (device && item.duration > SimTime()) return false;
    }
  }
  return true;
}

bool AnyTakesTime(const Prediction& prediction) {
  return std::ranges::any_of(prediction.job.program.ranks, [](const RankProgram& rank) {
    return std::ranges::any_of(rank.items,
                               [](const Item& item) { return item.duration > SimTime(); });
  });
}

// A run in which nothing takes time says nothing.
absl::Status CheckPredicts(const std::string& path, const TraceStore& store,
                           const Prediction& prediction) {
  if (LongestIteration(prediction.ranks) > SimTime() && !LostDurations(store, prediction)) {
    return absl::OkStatus();
  }
  if (!LostDurations(store, prediction) && AnyTakesTime(prediction)) {
    return Infeasible(
        "{}: the marks of its steps are on the CPU, of which --without leaves nothing; leave less "
        "out",
        path);
  }
  for (const RankTrace& rank : store.ranks()) {
    for (uint32_t i = 0; i < rank.size(); ++i) {
      if (IsDeviceKind(rank.kind(NodeIndex(i)))) {
        return Infeasible(
            "{}: nothing in these traces has a duration; --durations model with a --platform and a "
            "--calibration gives kernels one, --network fitted communication",
            path);
      }
    }
  }
  return NothingRuns(store);
}

// Parts of the answer that options ask for: members of the document, and text behind the report.
struct FurtherParts {
  std::vector<std::pair<std::string_view, std::string>> members;
  std::string text;
};

absl::StatusOr<FurtherParts> MakeFurtherParts(const PredictOptions& options,
                                              const SimulationSetup& setup, const TimelineRun& run,
                                              std::span<const ProfileExtras> extras,
                                              const CommandContext& context) {
  FurtherParts parts;
  const TraceStore& store = run.table.store();
  if (options.attributes()) {
    FORETRACE_ASSIGN_OR_RETURN(
        const Attribution attribution,
        AttributeStep(options, run.table, run.prediction, run.report, extras));
    parts.members.emplace_back("attribution", AttributionJson(attribution));
    parts.text += "\n" + AttributionText(attribution, std::max<size_t>(options.top, 40),
                                         context.console->style());
  }
  if (options.memory) {
    FORETRACE_ASSIGN_OR_RETURN(const MemoryChange change, MemoryChange::Parse(options.memory_if));
    FORETRACE_ASSIGN_OR_RETURN(
        const std::vector<CapturedMemory> memory,
        MemoryUse(store, run.prediction, extras, setup.accelerators(), change));
    parts.members.emplace_back("memory", MemoryJson(memory));
    parts.text += "\n" + MemoryText(memory, options.top, context.console->style());
  }
  if (options.energy) {
    const auto& step = run.report.step;
    FORETRACE_ASSIGN_OR_RETURN(const std::vector<PowerModel> power, ShippedPower());
    FORETRACE_ASSIGN_OR_RETURN(
        const EnergyUse energy,
        EnergyOfStep(store, run.report.ranks, step.has_value() ? step->period : SimTime(),
                     setup.accelerators(), power));
    parts.members.emplace_back("energy", EnergyJson(energy));
    parts.text += "\n" + EnergyText(energy);
  }
  return parts;
}

absl::Status AddSensitivity(const TraceStore& store, const SimulationSetup& setup,
                            const Prediction& prediction, ReportOptions& report) {
  if (!report.step.has_value()) {
    return Infeasible("{}: --sensitivity needs a step that can be repeated, and {}",
                      store.ranks().front().info().source,
                      prediction.job.symbolic         ? "a trace without times has none"
                      : !prediction.marked_iterations ? "the traces have no marks of steps"
                      : prediction.job.semantics != Semantics::kFull
                          ? "Algorithm 1 repeats none"
                          : "nothing is known of what this one waits for in others (see the notes "
                            "of `predict` alone)");
  }
  FORETRACE_ASSIGN_OR_RETURN(
      report.sensitivity,
      ComputeSensitivity(store, prediction.job, *report.iteration, setup.network(), kSweptClasses));
  return absl::OkStatus();
}

absl::Status Answer(const PredictOptions& options, const PredictionReport& report,
                    const TraceStore& store, const FurtherParts& parts,
                    const CommandContext& context) {
  const auto document = [&] {
    std::string json = ReportJson(report, store);
    for (const auto& [key, value] : parts.members) json = WithMember(json, key, value);
    return json;
  };
  FORETRACE_RETURN_IF_ERROR(context.WriteAnswer("predict", document));
  if (options.json) return context.console->PrintJson("predict", document());
  TextReportOptions text;
  text.style = context.console->style();
  text.max_top = options.top;
  return context.console->Print(TextReport(report, store, text) + parts.text);
}

absl::Status CheckOptions(const PredictOptions& options) {
  if (options.energy && !options.simulation.on.empty()) {
    return InvalidInput("--energy is of the recorded devices: leave --on out");
  }
  return MemoryChange::Parse(options.memory_if).status();
}

absl::Status RunPredict(const PredictOptions& options, const CommandContext& context) {
  FORETRACE_RETURN_IF_ERROR(CheckOptions(options));
  FORETRACE_ASSIGN_OR_RETURN(const auto loaded, options.traces.Load(context));
  const TraceStore& store = *loaded;
  FORETRACE_RETURN_IF_ERROR(options.timeline.Check(store));
  FORETRACE_ASSIGN_OR_RETURN(const SimulationSetup setup,
                             SimulationSetup::Make(options.simulation, store, [&] {
                               return options.traces.LoadExtras(context);
                             }));
  EventTable table(store);
  EngineObserver* observers[] = {&table};
  CompileOptions compile = setup.compile();
  compile.keep_overheads = compile.keep_overheads || options.sensitivity;
  std::optional<Prediction> unedited;
  FORETRACE_ASSIGN_OR_RETURN(Prediction prediction,
                             Simulate(store, setup, compile, setup.network(), &unedited));
  FORETRACE_RETURN_IF_ERROR(CheckMissing(store, prediction, options.traces.strict));
  FORETRACE_RETURN_IF_ERROR(CheckPredicts(options.traces.paths.front(), store, prediction));
  const auto windows = Windows(prediction);
  FORETRACE_ASSIGN_OR_RETURN(ReportOptions report_options,
                             ExplainStep(store, setup, {options.iteration, options.traces.strict},
                                         prediction, unedited.has_value() ? &*unedited : nullptr));
  report_options.top = options.top;
  if (report_options.window != StepWindow::kMarks) {
    const int64_t step = *report_options.iteration;
    report_options.notes.push_back(NoteOfWindows(
        step, *report_options.step, IterationTimes(prediction)[step], report_options.window));
  }
  unedited.reset();
  if (options.sensitivity) {
    FORETRACE_RETURN_IF_ERROR(AddSensitivity(store, setup, prediction, report_options));
  }
  FORETRACE_RETURN_IF_ERROR(NoteAlignedStart(store, setup, prediction, report_options.notes));
  Tell(store, prediction, observers, ProgramUse::kFree);
  const CommunicatorMap& map = prediction.job.communicators;
  report_options.communicator_names = [&map](uint32_t rendezvous) -> std::string_view {
    if (rendezvous >= map.rendezvous.size()) return "";
    return map.communicators[map.rendezvous[rendezvous].communicator].name;
  };
  FORETRACE_ASSIGN_OR_RETURN(const PredictionReport report,
                             BuildPredictionReport(table, windows, report_options));
  std::vector<ProfileExtras> extras;
  if (options.attributes() || options.memory) {
    FORETRACE_ASSIGN_OR_RETURN(extras, options.traces.LoadExtras(context));
  }
  const TimelineRun run{table, prediction, windows, report};
  FORETRACE_RETURN_IF_ERROR(WriteTimelines(options, setup, run, extras, context.inputs));
  FORETRACE_ASSIGN_OR_RETURN(const FurtherParts parts,
                             MakeFurtherParts(options, setup, run, extras, context));
  return Answer(options, report, store, parts, context);
}

// What the answer holds.
void RegisterReport(CLI::App& command, PredictOptions& options) {
  command.add_flag("--json", options.json, "one JSON document instead of tables");
  options.timeline.Register(command);
  command.add_option("--iteration", options.iteration,
                     "the iteration to report (default: the one of median time)");
  command.add_flag("--sensitivity", options.sensitivity,
                   "also what the step owes to each op, communicator, CPU op and synchronisation");
  command
      .add_option(
          "--by", options.by,
          "also the step's time by module or line (recorded with_stack), range (annotations, "
          "NVTX), op, kernel or stream")
      ->check(CLI::IsMember({"module", "line", "range", "op", "kernel", "stream"}));
  command
      .add_option("--flamegraph", options.flamegraph,
                  "device time by --by (default: module) for speedscope.app")
      ->group(kOutputGroup)
      ->type_name("FILE");
  command.add_flag("--memory", options.memory,
                   "also the device memory at its peak: when, by which op and module, of which "
                   "phase (recorded with profile_memory)");
  command
      .add_option(
          "--memory-if", options.memory_if,
          "with --memory: the peak with micro-batch=xF, recompute=REGEX of modules or "
          "ranges, segments=N of the forward pass recomputed, zero=STAGE/N; may be repeated")
      ->allow_extra_args(false)
      ->type_name("CHANGE")
      ->needs("--memory");
  command.add_flag("--energy", options.energy,
                   "also the energy of the step, at most: by the devices' rated power, waiting "
                   "ones by what was measured where it was");
  command.add_option("--top", options.top, "entries in the lists of kernels and ops")
      ->capture_default_str();
}

}  // namespace

void AddPredictCommand(CLI::App& app, CommandContext& context) {
  auto options = std::make_shared<PredictOptions>();
  CLI::App* command = app.add_subcommand(
      "predict", "iteration time, where it goes, and why, from captured or symbolic traces");
  options->traces.Register(*command, true,
                           "refuse input that needs repairs, ops without a model, and a recording "
                           "that its own replay does not repeat (NOT RELIABLE)");
  options->simulation.Register(*command);
  command
      ->add_option("--ranks", options->simulation.ranks,
                   "the same job, data parallel, on so many ranks, from those at hand: with --on "
                   "PLATFORM")
      ->check(CLI::Range(2, 1 << 20));
  command
      ->add_option(
          "--data-parallel", options->simulation.data_parallel,
          "groups that grow with --ranks (default: those of all ranks, and those named for "
          "data parallelism)")
      ->type_name("REGEX");
  RegisterReport(*command, *options);
  command->footer(Examples({
      "foretrace predict traces/samples/dlrm_8rank",
      "foretrace predict run1/ --timeline run1.json.gz --json > run1.report.json",
      "foretrace predict run1/ --timeline predicted/             # for HTA, TensorBoard",
      "foretrace predict run1/ --what-if 'name=.*gemm.*:x0.5'    # GEMMs twice as fast",
      "foretrace predict run1/ --by module --flamegraph run1.speedscope.json",
      "foretrace predict run1/ --sensitivity                     # what is worth making faster",
      "foretrace predict run1/ --what-if 'call=cudaStreamSynchronize:remove'",
      "foretrace predict run1/ --durations model --calibration v100-sxm2-nvlink --platform "
      "dgx1-v100",
      "foretrace predict run1/ --durations model-for=name=gemm    # the rest as recorded",
      "foretrace predict run1/ --on dgx-h100                     # the same job on another machine",
      "foretrace predict run1/ --ranks 1024 --on dgx-h100         # the same job on more",
      "foretrace predict run1/ --semantics algorithm1",
  }));
  command->callback([options, &context] {
    context.run = [options, &context] { return RunPredict(*options, context); };
  });
}

}  // namespace foretrace
