#include "simulator/engine/replay.h"

#include <algorithm>
#include <utility>

#include "simulator/base/status_macros.h"
#include "simulator/engine/executor.h"
#include "simulator/engine/explain.h"

namespace foretrace {
namespace {

// Algorithm 1 counts an iteration until its streams are done too (line 40).
SimTime StreamsDone(const RankProgram& program, const RankSchedule& times, SimTime from,
                    SimTime to) {
  SimTime done = to;
  for (uint32_t i = 0; i < program.items.size(); ++i) {
    const uint32_t issuer = program.items[i].issuer;
    if (issuer == kNoItem || times.start[issuer] < from || times.start[issuer] >= to) continue;
    done = std::max(done, times.end[i]);
  }
  return done;
}

PredictedRank MeasureRank(const TraceStore& store, uint32_t r, const CompiledJob& job,
                          const Program& whole_program, const Schedule& schedule) {
  const RankTrace& trace = store.ranks()[r];
  const RankProgram& program = whole_program.ranks[r];
  const RankSchedule& times = schedule.ranks[r];
  PredictedRank out;
  for (const IterationItems& it : program.iterations) {
    if (it.begin_item == kNoItem || it.end_item == kNoItem) continue;
    PredictedIteration iteration;
    iteration.number = it.number;
    iteration.predicted_start = times.start[it.begin_item];
    iteration.predicted_end = times.start[it.end_item];
    if (job.semantics == Semantics::kAlgorithm1) {
      iteration.predicted_end =
          StreamsDone(program, times, iteration.predicted_start, iteration.predicted_end);
    }
    iteration.recorded_start = it.recorded_begin;
    iteration.recorded_end = it.recorded_end;
    iteration.partial = (out.iterations.empty() && job.reports[r].in_flight_at_start) ||
                        job.reports[r].partial_steps.contains(it.number);
    out.iterations.push_back(iteration);
  }
  if (out.iterations.empty()) {
    PredictedIteration whole;
    whole.predicted_start = program.start;
    for (const SimTime end : times.end) whole.predicted_end = std::max(whole.predicted_end, end);
    if (trace.info().has_times) {
      whole.recorded_start = trace.start(NodeIndex(0));
      whole.recorded_end = whole.recorded_start;
      for (const Item& item : program.items) {
        whole.recorded_end = std::max(whole.recorded_end, trace.end(item.node));
      }
    }
    out.iterations.push_back(whole);
  }
  for (const LaneProgram& lane : program.lanes) {
    SimTime busy;
    for (uint32_t i = lane.begin; i < lane.end; ++i) {
      const Item& item = program.items[i];
      if (lane.cpu) {
        if (item.kind == ItemKind::kBlocking) out.blocked += times.end[i] - times.start[i];
      } else if (item.kind != ItemKind::kComm || whole_program.rendezvous[item.rendezvous].fixed) {
        busy += item.duration;
      } else {
        busy += times.end[i] - schedule.rendezvous_active[item.rendezvous];
      }
    }
    if (!lane.unlimited) {
      out.kernel_time_of_busiest_stream = std::max(out.kernel_time_of_busiest_stream, busy);
    }
  }
  return out;
}

}  // namespace

SimTime Prediction::PredictedCpuTime(RankIndex rank, SimTime recorded) const {
  const std::vector<CpuAnchor>& anchors = job.cpu_anchors[rank];
  const RankSchedule& times = schedule.ranks[rank];
  const SimTime base = job.program.ranks[rank].start;
  if (anchors.empty()) return recorded - job.origin + job.reports[rank].clock_offset;
  auto next = std::upper_bound(anchors.begin(), anchors.end(), recorded,
                               [](SimTime t, const CpuAnchor& a) { return t < a.recorded_begin; });
  // Between two points of known recorded and predicted time: linear.
  SimTime from_recorded = anchors.front().recorded_begin;
  SimTime from_predicted = std::max(base, times.start[anchors.front().item]);
  if (next == anchors.begin()) return from_predicted - (from_recorded - recorded);
  const CpuAnchor& before = *(next - 1);
  SimTime to_recorded;
  SimTime to_predicted;
  if (recorded < before.recorded_end) {
    from_recorded = before.recorded_begin;
    from_predicted = times.start[before.item];
    to_recorded = before.recorded_end;
    to_predicted = times.end[before.item];
  } else {
    from_recorded = before.recorded_end;
    from_predicted = times.end[before.item];
    if (next == anchors.end()) return from_predicted + (recorded - from_recorded);
    to_recorded = next->recorded_begin;
    to_predicted = times.start[next->item];
  }
  if (to_recorded <= from_recorded) return from_predicted;
  const double share = static_cast<double>((recorded - from_recorded).ps()) /
                       static_cast<double>((to_recorded - from_recorded).ps());
  return from_predicted + (to_predicted - from_predicted).ScaledBy(share);
}

std::vector<PredictedRank> MeasureRanks(const TraceStore& store, const CompiledJob& job,
                                        const Program& program, const Schedule& schedule) {
  std::vector<PredictedRank> ranks;
  for (uint32_t r = 0; r < store.ranks().size(); ++r) {
    ranks.push_back(MeasureRank(store, r, job, program, schedule));
  }
  return ranks;
}

absl::StatusOr<Prediction> Replay(const TraceStore& store, CompiledJob job, NetworkModel* network) {
  Prediction prediction;
  prediction.job = std::move(job);
  const Program& program = prediction.job.program;
  FORETRACE_ASSIGN_OR_RETURN(prediction.schedule, Execute(store, program, network));
  prediction.ranks = MeasureRanks(store, prediction.job, program, prediction.schedule);
  prediction.marked_iterations =
      std::any_of(program.ranks.begin(), program.ranks.end(),
                  [](const RankProgram& rank) { return !rank.iterations.empty(); });
  return prediction;
}

void Tell(const TraceStore& store, Prediction& prediction,
          std::span<EngineObserver* const> observers, ProgramUse program_use) {
  Program& told = prediction.job.program;
  if (program_use == ProgramUse::kKeep) {
    Explain(store, told, prediction.schedule, observers);
    return;
  }
  Explain(store, told, prediction.schedule, observers, [&told](uint32_t rank) {
    std::vector<Item>().swap(told.ranks[rank].items);
    std::vector<ItemWait>().swap(told.ranks[rank].waits);
  });
  std::vector<RendezvousProgram>().swap(told.rendezvous);
  prediction.job.reconstruction.reset();
}

absl::StatusOr<Prediction> Predict(const TraceStore& store, const CompileOptions& options,
                                   NetworkModel* network,
                                   std::span<EngineObserver* const> observers,
                                   ProgramUse program_use) {
  FORETRACE_ASSIGN_OR_RETURN(CompiledJob job, Compile(store, options));
  FORETRACE_ASSIGN_OR_RETURN(Prediction prediction, Replay(store, std::move(job), network));
  Tell(store, prediction, observers, program_use);
  return prediction;
}

}  // namespace foretrace
