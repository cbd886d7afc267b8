#include "simulator/replay/step_errors.h"

#include <algorithm>
#include <cmath>

#include "simulator/base/statistics.h"
#include "simulator/engine/step_times.h"

namespace foretrace {
SimTime BlockedWithin(const RankProgram& program, const RankSchedule& times, SimTime from,
                      SimTime to) {
  SimTime blocked;
  for (const LaneProgram& lane : program.lanes) {
    if (!lane.cpu) continue;
    for (uint32_t i = lane.begin; i < lane.end; ++i) {
      if (program.items[i].kind != ItemKind::kBlocking) continue;
      const SimTime begin = std::max(from, times.start[i]);
      const SimTime end = std::min(to, times.end[i]);
      if (end > begin) blocked += end - begin;
    }
  }
  return blocked;
}

namespace {

void SetOtherErrors(const std::vector<MeasuredStep>& steps, StepError& error) {
  const auto signed_error = [](SimTime predicted, SimTime recorded) -> std::optional<double> {
    if (recorded <= SimTime()) return std::nullopt;
    return predicted.us() / recorded.us() - 1.0;
  };
  for (const MeasuredStep& step : steps) {
    if (step.number != error.step) continue;
    error.completion_error = signed_error(step.predicted.completion, step.recorded.completion);
    if (step.predicted.period.has_value()) {
      error.period_error = signed_error(*step.predicted.period, *step.recorded.period);
    }
  }
}

// Whether the recording has calls or device work in a step; marks are neither.
bool AnythingRuns(const RankTrace& trace, const RankProgram& program,
                  const PredictedIteration& step) {
  return std::ranges::any_of(program.items, [&](const Item& item) {
    if (trace.kind(item.node) == NodeKind::kAnnotation) return false;
    const SimTime start = trace.start(item.node);
    return start < step.recorded_end && start + trace.duration(item.node) > step.recorded_start;
  });
}

}  // namespace

std::vector<StepError> CompareSteps(const TraceStore& store, const Prediction& prediction) {
  std::vector<StepError> errors;
  const std::vector<std::vector<MeasuredStep>> measured = MeasureSteps(store, prediction);
  for (uint32_t r = 0; r < store.ranks().size(); ++r) {
    const RankTrace& trace = store.ranks()[r];
    const RankProgram& program = prediction.job.program.ranks[r];
    const RankSchedule& times = prediction.schedule.ranks[r];
    for (const PredictedIteration& it : prediction.ranks[r].iterations) {
      StepError e;
      e.step = it.number;
      e.rank_index = r;
      e.measured = it.recorded_end - it.recorded_start;
      e.predicted = it.predicted_end - it.predicted_start;
      e.partial = it.partial;
      if (e.measured > SimTime()) e.error = e.predicted.us() / e.measured.us() - 1.0;
      if (e.predicted > SimTime()) {
        e.blocked_share = BlockedWithin(program, times, it.predicted_start, it.predicted_end).us() /
                          e.predicted.us();
      }
      SetOtherErrors(measured[r], e);
      std::vector<double> distances;
      for (uint32_t i = 0; i < program.items.size(); ++i) {
        const NodeIndex n = program.items[i].node;
        if (!IsDeviceKind(trace.kind(n))) continue;
        const SimTime recorded = trace.start(n);
        if (recorded < it.recorded_start || recorded >= it.recorded_end) continue;
        distances.push_back(std::abs(
            ((times.start[i] - it.predicted_start) - (recorded - it.recorded_start)).us()));
      }
      e.kernel_start_median = RealUs(Quantile(distances, 0.5));
      e.kernel_start_p90 = RealUs(Quantile(distances, 0.9));
      for (const double us : distances) e.kernel_starts.emplace_back(us);
      e.followed = prediction.ranks[r].iterations.size() > 1;
      e.idle = !AnythingRuns(trace, program, it);
      errors.push_back(e);
    }
  }
  return errors;
}

}  // namespace foretrace
