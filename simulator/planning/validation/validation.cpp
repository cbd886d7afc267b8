#include "simulator/planning/validation/validation.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>
#include <span>

#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/cost/cpu_overhead/overhead_statistics.h"
#include "simulator/cost/traced/recorded_cost_model.h"
#include "simulator/engine/replay.h"
#include "simulator/reconstruct/recorded_accelerators.h"
#include "simulator/replay/rank_list.h"
#include "simulator/replay/replay_check.h"
#include "simulator/replay/run.h"

namespace foretrace {
namespace {

// Statistics from one part of the traces, and the rest, which is judged.
struct HoldOut {
  std::optional<OverheadStatistics> statistics;
  std::function<bool(int32_t rank, int64_t step)> judged;
};

// What messages call a case: traces of the command line have no name.
const std::string& NameOf(const ValidationCase& c) {
  return c.name.empty() ? c.traces.paths.front() : c.name;
}

// Overheads come from one place.
absl::Status CheckOverheads(const ValidationCase& c) {
  std::vector<std::string> given;
  if (c.simulation.overheads != "recorded") given.emplace_back("from a file");
  if (!c.overheads_from_ranks.empty()) given.push_back("from ranks " + c.overheads_from_ranks);
  if (!c.overheads_from_steps.empty()) given.push_back("from " + c.overheads_from_steps + " steps");
  if (given.size() < 2) return absl::OkStatus();
  return InvalidInput("{}: CPU overheads {} exclude each other; ask for one", NameOf(c),
                      fmt::join(given, " and "));
}

// Ranks that have no trace would give nothing, and all ranks leave none to judge.
absl::Status CheckHeldOut(const ValidationCase& c, const std::set<int32_t>& ranks,
                          const TraceStore& store) {
  size_t found = 0;
  for (const RankTrace& rank : store.ranks()) found += ranks.contains(rank.info().rank) ? 1 : 0;
  if (found < ranks.size()) {
    return InvalidInput("{}: overheads from ranks {}: the traces have {} of these {}", NameOf(c),
                        c.overheads_from_ranks, found, ranks.size());
  }
  if (found < store.ranks().size()) return absl::OkStatus();
  return InvalidInput(
      "{}: overheads from ranks {}: that is all of them, which leaves none to judge", NameOf(c),
      c.overheads_from_ranks);
}

absl::StatusOr<HoldOut> MakeHoldOut(const ValidationCase& c, const TraceStore& store,
                                    const SyncCosts& costs) {
  HoldOut out;
  OverheadFilter source;
  if (!c.overheads_from_ranks.empty()) {
    FORETRACE_ASSIGN_OR_RETURN(const std::set<int32_t> ranks,
                               ParseNumberList("overheads from ranks", c.overheads_from_ranks));
    FORETRACE_RETURN_IF_ERROR(CheckHeldOut(c, ranks, store));
    source = [ranks](int32_t rank, int64_t) { return ranks.contains(rank); };
    out.judged = [ranks](int32_t rank, int64_t) { return !ranks.contains(rank); };
  } else if (!c.overheads_from_steps.empty()) {
    const int64_t parity = c.overheads_from_steps == "even" ? 0 : 1;
    source = [parity](int32_t, int64_t step) { return step >= 0 && step % 2 == parity; };
    out.judged = [parity](int32_t, int64_t step) { return step >= 0 && step % 2 != parity; };
  } else {
    return out;
  }
  FORETRACE_ASSIGN_OR_RETURN(const AcceleratorCatalog accelerators,
                             LoadRecordedAccelerators(store));
  out.statistics = OverheadStatistics::Extract(store, accelerators, costs, source);
  if (out.statistics->empty()) {
    return InvalidInput("{}: no overheads to take from {}", NameOf(c),
                        c.overheads_from_ranks.empty() ? c.overheads_from_steps + " steps"
                                                       : "ranks " + c.overheads_from_ranks);
  }
  return out;
}

double MeanError(const TraceStore& store, const Prediction& prediction, const HoldOut& hold_out,
                 AblationRow& row) {
  std::vector<double> errors;
  for (const StepError& e : CompareSteps(store, prediction)) {
    const int32_t rank = store.ranks()[e.rank_index].info().rank;
    if (e.idle) continue;
    if (hold_out.judged == nullptr || hold_out.judged(rank, e.step)) errors.push_back(e.error);
  }
  const ErrorSummary summary = SummarizeErrors(errors);
  row.steps = summary.count;
  row.mape_percent = summary.mape_percent;
  row.max_percent = summary.max_percent;
  return summary.mape_percent;
}

// The multi-GPU paper's baseline: the busiest stream's summed device time, per recorded step.
void AddBaseline(const ValidationCase& c, const TraceStore& store, const Prediction& prediction,
                 ValidationResult& result) {
  std::vector<double> errors;
  for (uint32_t r = 0; r < store.ranks().size(); ++r) {
    const RankTrace& trace = store.ranks()[r];
    const RankProgram& program = prediction.job.program.ranks[r];
    for (const PredictedIteration& it : prediction.ranks[r].iterations) {
      SimTime busiest;
      for (const LaneProgram& lane : program.lanes) {
        if (lane.cpu) continue;
        SimTime sum;
        for (uint32_t i = lane.begin; i < lane.end; ++i) {
          const SimTime start = trace.start(program.items[i].node);
          if (start >= it.recorded_start && start < it.recorded_end) {
            sum += program.items[i].duration;
          }
        }
        busiest = std::max(busiest, sum);
      }
      const double measured = (it.recorded_end - it.recorded_start).us();
      if (measured > 0) errors.push_back(busiest.us() / measured - 1.0);
    }
  }
  const ErrorSummary summary = SummarizeErrors(errors);
  result.ablation.push_back({c.name, "baseline: busiest stream's sum", summary.count,
                             summary.mape_percent, summary.max_percent});
}

absl::Status AddAblation(const ValidationCase& c, const TraceStore& store,
                         const SimulationSetup& setup, const HoldOut& hold_out,
                         const Prediction& full, ValidationResult& result) {
  const auto add = [&](const char* name, const Prediction& prediction) {
    AblationRow row{c.name, name};
    MeanError(store, prediction, hold_out, row);
    result.ablation.push_back(row);
  };
  static constexpr std::pair<const char*, Ingredient> kVariants[] = {
      {"without rank-sync", Ingredient::kRankSync},
      {"without stream-sync", Ingredient::kStreamSync},
      {"without blocking", Ingredient::kBlocking},
      {"without contention", Ingredient::kContention},
      {"without fences", Ingredient::kFences},
      {"without cpu", Ingredient::kCpu},
      {"aligned start", Ingredient::kStartSkew},
  };
  add("full", full);
  FORETRACE_ASSIGN_OR_RETURN(const CompiledJob job, JobBeforeEdits(store, setup, full, nullptr));
  for (const auto& [name, ingredient] : kVariants) {
    CompiledJob variant = job;
    LeaveOut(ingredient, variant);
    FORETRACE_ASSIGN_OR_RETURN(const Prediction prediction,
                               SimulateJob(store, setup, std::move(variant), setup.network()));
    add(name, prediction);
  }
  CompileOptions options = setup.compile();
  options.semantics = Semantics::kAlgorithm1;
  FORETRACE_ASSIGN_OR_RETURN(CompiledJob algorithm1, CompileJob(store, setup, options, &full.job));
  FORETRACE_ASSIGN_OR_RETURN(const Prediction prediction,
                             SimulateJob(store, setup, std::move(algorithm1), setup.network()));
  add("Algorithm 1", prediction);
  AddBaseline(c, store, full, result);
  return absl::OkStatus();
}

// Profiles tend to end with the mark of a step that was hardly begun: the last of its rank, in
// which a device starts nothing although it did in the step before.
bool HardlyBegun(const std::vector<StepError>& errors, size_t i) {
  const bool last = i + 1 == errors.size() || errors[i + 1].rank_index != errors[i].rank_index;
  const bool follows = i > 0 && errors[i - 1].rank_index == errors[i].rank_index;
  return last && follows && errors[i].kernel_starts.empty() && !errors[i - 1].kernel_starts.empty();
}

// Compares the slowest rank's iteration with one measured number.
void JudgeMeasured(const ValidationCase& c, const TraceStore& store, const Prediction& prediction,
                   ValidationResult& result) {
  ValidatedStep step;
  step.case_name = c.name;
  step.error.measured = *c.measured;
  for (uint32_t r = 0; r < prediction.ranks.size(); ++r) {
    for (const PredictedIteration& it : prediction.ranks[r].iterations) {
      const SimTime predicted = it.predicted_end - it.predicted_start;
      if (predicted <= step.error.predicted) continue;
      step.error.predicted = predicted;
      step.error.step = it.number;
      step.rank = store.ranks()[r].info().rank;
    }
  }
  step.error.error = step.error.predicted.us() / step.error.measured.us() - 1.0;
  result.steps.push_back(step);
}

// The same job with recorded durations, for the errors that durations are to blame for.
absl::StatusOr<Prediction> ReplayRecorded(const TraceStore& store, const SimulationSetup& setup,
                                          const CompiledJob& modelled) {
  const RecordedCostModel recorded;
  CompileOptions options = setup.compile();
  options.durations = &recorded;
  options.model_communication = false;
  FORETRACE_ASSIGN_OR_RETURN(CompiledJob job, CompileJob(store, setup, options, &modelled));
  return SimulateJob(store, setup, std::move(job), nullptr);
}

absl::Status AddReplay(const ValidationCase& c, const TraceStore& store,
                       const SimulationSetup& setup, const Prediction& modelled,
                       std::span<ValidatedStep> steps, ValidationResult& result) {
  FORETRACE_ASSIGN_OR_RETURN(const Prediction replay, ReplayRecorded(store, setup, modelled.job));
  const std::vector<StepError> errors = CompareSteps(store, replay);
  for (size_t i = 0; i < std::min(errors.size(), steps.size()); ++i) {
    steps[i].replay_error = errors[i].error;
  }
  std::vector<DurationPair> pairs = CompareDurations(store, replay, modelled, *setup.kernels());
  for (DurationErrorRow& row : ErrorsByClass(pairs)) {
    row.case_name = c.name;
    result.durations.push_back(std::move(row));
  }
  for (DurationPair& pair : pairs) {
    pair.case_name = c.name;
    result.duration_pairs.push_back(std::move(pair));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ValidateCase(const ValidationCase& c, bool ablation, const CommandContext& context,
                          ValidationResult& result) {
  FORETRACE_RETURN_IF_ERROR(CheckOverheads(c));
  for (const std::string& path : c.traces.paths) {
    if (c.simulation.skip_absent && !std::filesystem::exists(path)) {
      result.skipped.push_back(fmt::format("{}: {} is not there", NameOf(c), path));
      return absl::OkStatus();
    }
  }
  FORETRACE_ASSIGN_OR_RETURN(const auto loaded, c.traces.Load(context));
  const TraceStore& store = *loaded;
  FORETRACE_ASSIGN_OR_RETURN(SimulationSetup setup, SimulationSetup::Make(c.simulation, store, [&] {
                               return c.traces.LoadExtras(context);
                             }));
  FORETRACE_ASSIGN_OR_RETURN(const HoldOut hold_out,
                             MakeHoldOut(c, store, setup.compile().sync_costs));
  if (hold_out.statistics.has_value()) {
    setup.compile().overheads = &*hold_out.statistics;
    setup.compile().overheads_apply = hold_out.judged;
  }
  setup.compile().keep_reconstruction = ablation;
  FORETRACE_ASSIGN_OR_RETURN(const Prediction prediction,
                             Simulate(store, setup, setup.compile(), setup.network()));
  FORETRACE_RETURN_IF_ERROR(CheckMissing(store, prediction, c.traces.strict));
  for (std::string& note : RunNotes(store, prediction, setup)) {
    result.notes.push_back(c.name.empty() ? note : c.name + ": " + note);
  }
  if (ReplaysRecording(setup)) {
    FORETRACE_ASSIGN_OR_RETURN(const std::optional<std::string> doubt,
                               DoubtOfReplay(store, setup, prediction, nullptr));
    if (doubt.has_value()) {
      result.doubts.push_back(c.name.empty() ? *doubt : c.name + ": " + *doubt);
    }
  }
  if (c.measured.has_value()) {
    JudgeMeasured(c, store, prediction, result);
    return absl::OkStatus();
  }
  if (prediction.job.symbolic) {
    return InvalidInput(
        "{}: the trace has no recorded times to validate against; give measured_us "
        "in a file of cases",
        store.ranks().front().info().source);
  }
  const size_t first = result.steps.size();
  const std::vector<StepError> errors = CompareSteps(store, prediction);
  for (size_t i = 0; i < errors.size(); ++i) {
    const StepError& e = errors[i];
    const int32_t rank = store.ranks()[e.rank_index].info().rank;
    const bool judged = hold_out.judged == nullptr || hold_out.judged(rank, e.step);
    const bool whole = !(e.partial && e.followed) && !e.idle && !HardlyBegun(errors, i);
    result.steps.push_back({c.name, rank, e, judged && whole, std::nullopt});
  }
  if (setup.kernels() != nullptr) {
    FORETRACE_RETURN_IF_ERROR(
        AddReplay(c, store, setup, prediction, std::span(result.steps).subspan(first), result));
  }
  if (ablation) return AddAblation(c, store, setup, hold_out, prediction, result);
  return absl::OkStatus();
}

void Summarize(ValidationResult& result) {
  std::vector<double> errors;
  std::vector<double> distances, completion, period;
  for (ValidatedStep& step : result.steps) {
    if (!step.judged) continue;
    errors.push_back(step.error.error);
    if (step.error.completion_error) completion.push_back(*step.error.completion_error);
    if (step.error.period_error) period.push_back(*step.error.period_error);
    for (const RealUs distance : step.error.kernel_starts) distances.push_back(distance.us());
  }
  result.summary = SummarizeErrors(errors);
  result.completion = SummarizeErrors(completion);
  result.period = SummarizeErrors(period);
  result.kernel_start_median = RealUs(Quantile(distances, 0.5));
  result.kernel_start_p90 = RealUs(Quantile(std::move(distances), 0.9));
}

}  // namespace foretrace
