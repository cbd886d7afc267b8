#include <algorithm>
#include <memory>

#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/cli/command.h"
#include "simulator/cli/options.h"
#include "simulator/cli/output.h"
#include "simulator/cli/replay_check.h"
#include "simulator/cli/run.h"
#include "simulator/exporters/timeline/trace_event_writer.h"
#include "simulator/report/report_json.h"
#include "simulator/report/text_report.h"
#include "simulator/report/timeline.h"

namespace foretrace {
namespace {

struct PredictOptions {
  TraceOptions traces;
  SimulationOptions simulation;
  bool json = false;
  std::string timeline;
  int64_t iteration = -1;
  size_t top = 10;
};

absl::Status WriteTimelineFile(const PredictOptions& options, const EventTable& table,
                               const Prediction& prediction,
                               const std::vector<std::vector<IterationWindow>>& windows,
                               const std::vector<std::string>& notes) {
  TraceEventWriter writer(options.timeline);
  TimelineOptions timeline;
  timeline.predicted_cpu_time = [&prediction](RankIndex rank, SimTime recorded) {
    return prediction.PredictedCpuTime(rank, recorded);
  };
  timeline.windows = windows;
  timeline.notes = notes;
  WriteTimeline(table, timeline, writer);
  return writer.Close();
}

SimTime LongestIteration(const Prediction& prediction) {
  SimTime longest;
  for (const PredictedRank& rank : prediction.ranks) {
    for (const PredictedIteration& it : rank.iterations) {
      longest = std::max(longest, it.predicted_end - it.predicted_start);
    }
  }
  return longest;
}

// The recorded skew between ranks is an initial condition, so its effect is said.
absl::Status NoteAlignedStart(const TraceStore& store, const SimulationSetup& setup,
                              const Prediction& prediction, std::vector<std::string>& notes) {
  SimTime skew;
  for (const RankCompileReport& report : prediction.job.reports) {
    skew = std::max(skew, report.start_skew);
  }
  const CompileOptions& given = setup.compile();
  if (skew == SimTime() || given.aligned_start || given.semantics != Semantics::kFull ||
      given.model_communication) {
    return absl::OkStatus();
  }
  CompileOptions aligned = given;
  aligned.aligned_start = true;
  FORETRACE_ASSIGN_OR_RETURN(const Prediction other, Predict(store, aligned, nullptr));
  const std::string with = fmt::format("{:.1f}", LongestIteration(prediction).us());
  const std::string without = fmt::format("{:.1f}", LongestIteration(other).us());
  notes.push_back(fmt::format(
      "ranks start up to {:.1f} us apart, as recorded; started together, the "
      "longest iteration takes {}",
      skew.us(),
      with == without ? "as long" : fmt::format("{} us instead of {} us", without, with)));
  return absl::OkStatus();
}

// A run in which nothing takes time says nothing.
absl::Status CheckPredicts(const std::string& path, const TraceStore& store,
                           const Prediction& prediction) {
  if (LongestIteration(prediction) > SimTime()) return absl::OkStatus();
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
  return Infeasible(
      "{}: no work on a device, so nothing to predict; an execution trace alone holds operators: "
      "add "
      "the Kineto trace of the same run",
      path);
}

absl::Status RunPredict(const PredictOptions& options) {
  FORETRACE_ASSIGN_OR_RETURN(const TraceStore store, options.traces.Load());
  FORETRACE_ASSIGN_OR_RETURN(const SimulationSetup setup,
                             SimulationSetup::Make(options.simulation, store));
  EventTable table(store);
  EngineObserver* observers[] = {&table};
  FORETRACE_ASSIGN_OR_RETURN(
      const Prediction prediction,
      Predict(store, setup.compile(), setup.network(), observers, ProgramUse::kFree));
  FORETRACE_RETURN_IF_ERROR(CheckMissing(store, prediction, options.traces.strict));
  FORETRACE_RETURN_IF_ERROR(CheckPredicts(options.traces.paths.front(), store, prediction));
  const auto windows = Windows(prediction);
  ReportOptions report_options;
  report_options.top = options.top;
  report_options.notes = RunNotes(store, prediction, setup);
  FORETRACE_ASSIGN_OR_RETURN(const std::optional<std::string> doubt,
                             DoubtOfReplay(store, setup, prediction));
  if (doubt.has_value() && options.traces.strict) return Infeasible("--strict: {}", *doubt);
  if (doubt.has_value()) report_options.notes.insert(report_options.notes.begin(), *doubt);
  FORETRACE_RETURN_IF_ERROR(NoteAlignedStart(store, setup, prediction, report_options.notes));
  const CommunicatorMap& map = prediction.job.communicators;
  report_options.communicator_names = [&map](uint32_t meeting) -> std::string_view {
    if (meeting >= map.meetings.size()) return "";
    return map.communicators[map.meetings[meeting].communicator].name;
  };
  if (options.iteration >= 0) report_options.iteration = options.iteration;
  FORETRACE_ASSIGN_OR_RETURN(const PredictionReport report,
                             BuildPredictionReport(table, windows, report_options));
  if (!options.timeline.empty()) {
    FORETRACE_RETURN_IF_ERROR(WriteTimelineFile(options, table, prediction, windows, report.notes));
  }
  if (options.json) return PrintJson("predict", ReportJson(report, store));
  TextReportOptions text;
  text.style = OutputStyle();
  text.max_top = options.top;
  const std::string first = doubt.has_value() ? fmt::format("WARNING: {}\n", *doubt) : "";
  return Print(first + TextReport(report, store, text));
}

}  // namespace

void AddPredictCommand(CLI::App& app, CommandContext& context) {
  auto options = std::make_shared<PredictOptions>();
  CLI::App* command = app.add_subcommand(
      "predict", "iteration time, where it goes, and why, from captured or symbolic traces");
  options->traces.Register(*command, true);
  options->simulation.Register(*command);
  command->add_flag("--json", options->json, "one JSON document instead of tables");
  command
      ->add_option("--timeline", options->timeline,
                   "write the predicted beside the recorded run, for ui.perfetto.dev (.json or "
                   ".json.gz)")
      ->group(kOutputGroup)
      ->type_name("FILE");
  command->add_option("--iteration", options->iteration,
                      "the iteration to report (default: the one of median time)");
  command->add_option("--top", options->top, "entries in the lists of kernels and ops")
      ->capture_default_str();
  command->footer(Examples({
      "foretrace predict traces/samples/dlrm_8rank",
      "foretrace predict run1/ --timeline run1.json.gz --json > run1.report.json",
      "foretrace predict run1/ --what-if 'name=.*gemm.*:x0.5'    # GEMMs twice as fast",
      "foretrace predict run1/ --durations model --calibration v100-sxm2-nvlink --platform "
      "dgx1-v100",
      "foretrace predict run1/ --durations model-for=name=gemm    # the rest as recorded",
      "foretrace predict run1/ --semantics algorithm1",
  }));
  command->callback(
      [options, &context] { context.run = [options] { return RunPredict(*options); }; });
}

}  // namespace foretrace
