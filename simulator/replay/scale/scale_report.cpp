#include "simulator/replay/scale/scale_report.h"

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "simulator/base/status_macros.h"
#include "simulator/engine/cpu_scale.h"
#include "simulator/engine/grow_groups.h"
#include "simulator/replay/run.h"
#include "simulator/replay/step_report.h"

namespace foretrace {
namespace {

// The job as it is before it grows.
absl::StatusOr<CompiledJob> JobOf(const TraceStore& store, const SimulationSetup& setup,
                                  const ScaledStep& scaled) {
  FORETRACE_ASSIGN_OR_RETURN(CompiledJob job,
                             JobBeforeEdits(store, setup, scaled.prediction, scaled.unedited));
  ScaleCpu(job.program, setup.cpu_scale());
  return job;
}

// By which share the replay of the recorded job misses its step: no change of it is known better.
double ReplayError(const Prediction& replayed, int64_t iteration) {
  SimTime predicted, recorded;
  for (const PredictedRank& rank : replayed.ranks) {
    for (const PredictedIteration& it : rank.iterations) {
      if (it.number != iteration) continue;
      predicted = std::max(predicted, it.predicted_end - it.predicted_start);
      recorded = std::max(recorded, it.recorded_end - it.recorded_start);
    }
  }
  if (recorded <= SimTime() || predicted <= SimTime()) return 0;
  const double ratio = predicted.seconds() / recorded.seconds();
  return std::max(ratio, 1 / ratio) - 1;
}

// What the members of rendezvous `index` do, and how often the recording shows that.
struct RecordedKind {
  uint32_t communicator = 0;
  CollectiveOp op = CollectiveOp::kUnknown;
  int64_t bytes = 0;

  static RecordedKind Of(const TraceStore& store, const CompiledJob& job, uint32_t index) {
    const auto& first = job.program.rendezvous[index].members.front();
    const RankTrace& rank = store.ranks()[first.rank];
    const NodeIndex node = job.program.ranks[first.rank].items[first.item].node;
    const CommAttr* attr = rank.comm(node);
    return {job.communicators.rendezvous[index].communicator, rank.collective_op(node),
            attr == nullptr ? 0 : std::max(attr->bytes_in, attr->bytes_out).count()};
  }
  auto operator<=>(const RecordedKind&) const = default;
};

// What ranks waited for those without a trace is told from the transfer by others of its kind.
// Where there are none the transfer takes at least what the network says of members that come
// together.
absl::Status DropWaits(const TraceStore& store, const SimulationSetup& setup,
                       const std::vector<ScaleOutSummary::Group>& groups, CompiledJob& job) {
  std::map<std::string_view, int32_t> sizes;
  for (const ScaleOutSummary::Group& group : groups) sizes[group.communicator] = group.to;
  std::map<RecordedKind, std::vector<uint32_t>> kinds;
  for (uint32_t index = 0; index < job.program.rendezvous.size(); ++index) {
    const MatchedRendezvous& matched = job.communicators.rendezvous[index];
    const RendezvousProgram& rendezvous = job.program.rendezvous[index];
    if (matched.missing_members == 0 || matched.point_to_point || !rendezvous.fixed) continue;
    if (!rendezvous.members.empty()) kinds[RecordedKind::Of(store, job, index)].push_back(index);
  }
  GroupResizer resizer(store, job, setup.sizes(), true);
  for (const auto& [kind, recorded] : kinds) {
    if (recorded.size() > 1) continue;
    const MatchedCommunicator& communicator = job.communicators.communicators[kind.communicator];
    const auto grown = sizes.find(communicator.name);
    const int32_t size = grown != sizes.end() ? grown->second : GroupSize(communicator);
    FORETRACE_ASSIGN_OR_RETURN(const Estimate least, resizer.Transfer(recorded.front(), size));
    for (const auto& member : job.program.rendezvous[recorded.front()].members) {
      Item& item = job.program.ranks[member.rank].items[member.item];
      item.duration = std::min(item.duration, least.time);
    }
  }
  return absl::OkStatus();
}

// The same doubt about ranks without a trace, of a step that takes `expected`.
void AddAbsent(const AbsentInterval& absent, AbsentRanks taken, ScaleOutSummary& out) {
  const SimTime as_taken = taken == AbsentRanks::kNeverLast    ? absent.never_last
                           : taken == AbsentRanks::kAsRecorded ? absent.as_recorded
                                                               : absent.alike;
  if (as_taken <= SimTime()) return;
  const auto scaled = [&](SimTime end) {
    return out.expected.ScaledBy(end.seconds() / as_taken.seconds());
  };
  out.absent_lower = scaled(absent.lower()), out.absent_upper = scaled(absent.upper());
  out.lower = std::min(out.lower, out.absent_lower);
  out.upper = std::max(out.upper, out.absent_upper);
}

// What grows.
absl::Status AddGrowth(const TraceStore& store, const SimulationSetup& setup,
                       const CompiledJob& job, ScaleOutSummary& out) {
  CompiledJob whole = job;
  const WhatIf before = setup.what_if().WithoutScaleOut();
  FORETRACE_RETURN_IF_ERROR(before.Apply(store, whole, setup.sizes(), whole.program));
  FORETRACE_ASSIGN_OR_RETURN(
      const ScaleOut::Summary summary,
      setup.what_if().scale_out()->Scale(store, whole, setup.sizes(), whole.program));
  for (const GroupGrowth& g : summary.groups) {
    out.groups.push_back({job.communicators.communicators[g.communicator].name, g.from, g.to,
                          g.rendezvous, g.transfers_before, g.transfers_after, g.later,
                          g.supposed});
    if (g.supposed) out.supposed_slowdown = kSlowestRank;
  }
  out.optimizer_before = summary.optimizer_before;
  out.optimizer_after = summary.optimizer_after;
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::optional<ScaleOutSummary>> SummarizeScaleOut(const TraceStore& store,
                                                                 const SimulationSetup& setup,
                                                                 const ScaledStep& scaled) {
  if (!setup.what_if().scale_out().has_value()) return std::nullopt;
  const auto time_of = [&](const Prediction& p) -> absl::StatusOr<SimTime> {
    if (!scaled.step.has_value()) return IterationTimes(p)[scaled.iteration];
    std::vector<std::string> same_notes;
    FORETRACE_ASSIGN_OR_RETURN(
        const auto summary, SummarizeStep(store, p, scaled.iteration, setup.network(), same_notes));
    return summary.has_value() ? summary->period : scaled.step->period;
  };
  const auto time_in = [&](CompiledJob changed) -> absl::StatusOr<SimTime> {
    FORETRACE_ASSIGN_OR_RETURN(const Prediction read,
                               Replay(store, std::move(changed), setup.network()));
    return time_of(read);
  };
  ScaleOutSummary out;
  out.ranks = setup.what_if().scale_out()->ranks();
  out.recorded = RecordedRanks(store);
  out.at_hand = static_cast<int32_t>(store.ranks().size());
  FORETRACE_ASSIGN_OR_RETURN(out.expected, time_of(scaled.prediction));
  out.lower = out.upper = out.expected;
  FORETRACE_ASSIGN_OR_RETURN(const CompiledJob job, JobOf(store, setup, scaled));
  FORETRACE_RETURN_IF_ERROR(AddGrowth(store, setup, job, out));
  for (const LastArrival last : {LastArrival::kAtHand, LastArrival::kLate}) {
    if (out.groups.empty()) break;
    CompiledJob other = job;
    FORETRACE_RETURN_IF_ERROR(
        setup.what_if().With(last).Apply(store, other, setup.sizes(), other.program));
    FORETRACE_ASSIGN_OR_RETURN(const SimTime time, time_in(std::move(other)));
    out.lower = std::min(out.lower, time);
    out.upper = std::max(out.upper, time);
  }
  out.last_at_hand = out.lower, out.last_late = out.upper;
  if (scaled.absent.has_value()) {
    AddAbsent(*scaled.absent, setup.compile().absent, out);
    if (setup.sizes() != nullptr) {
      CompiledJob least = job;
      FORETRACE_RETURN_IF_ERROR(setup.what_if()
                                    .With(LastArrival::kAtHand)
                                    .Apply(store, least, setup.sizes(), least.program));
      FORETRACE_RETURN_IF_ERROR(DropWaits(store, setup, out.groups, least));
      FORETRACE_ASSIGN_OR_RETURN(const SimTime time, time_in(std::move(least)));
      out.absent_lower = std::min(out.absent_lower, time);
      out.lower = std::min(out.lower, time);
    }
  }
  const Prediction* replayed = scaled.unedited != nullptr ? scaled.unedited : &scaled.prediction;
  out.replay_error = ReplayError(*replayed, scaled.iteration);
  out.lower = out.lower.ScaledBy(1 / (1 + out.replay_error));
  out.upper = out.upper.ScaledBy(1 + out.replay_error);
  return out;
}

}  // namespace foretrace
