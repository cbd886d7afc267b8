#include "simulator/replay/absent_ranks.h"

#include <algorithm>
#include <set>

#include "simulator/base/status_macros.h"
#include "simulator/engine/cpu_scale.h"
#include "simulator/engine/executor.h"
#include "simulator/replay/run.h"

namespace foretrace {
namespace {

SimTime TimeOf(const std::vector<PredictedRank>& ranks, int64_t iteration) {
  SimTime longest;
  for (const PredictedRank& rank : ranks) {
    for (const PredictedIteration& it : rank.iterations) {
      if (it.number != iteration) continue;
      longest = std::max(longest, it.predicted_end - it.predicted_start);
    }
  }
  return longest;
}

SimTime ComputeOf(const RankProgram& rank) {
  SimTime sum;
  for (const Item& item : rank.items) {
    if (item.kind == ItemKind::kDevice) sum += item.duration;
  }
  return sum;
}

bool HaveTheSameItems(const Program& a, const Program& b) {
  bool same = a.rendezvous.size() == b.rendezvous.size();
  for (size_t r = 0; r < a.ranks.size() && same; ++r) {
    same = a.ranks[r].items.size() == b.ranks[r].items.size();
  }
  return same;
}

// Absent ranks compute for as much longer, or shorter, as those at hand do since the change: so
// does the waiting for them, which is what `alike` has beyond `never_last`. All programs but
// `changed` are without the change.
void ChangeWaiting(const Program& alike, const Program& never_last, const CommunicatorMap& map,
                   Program& changed) {
  if (!HaveTheSameItems(alike, changed)) return;
  std::vector<double> slower;
  for (size_t r = 0; r < alike.ranks.size(); ++r) {
    const SimTime before = ComputeOf(alike.ranks[r]);
    slower.push_back(before > SimTime() ? ComputeOf(changed.ranks[r]).us() / before.us() : 1.0);
  }
  for (size_t m = 0; m < alike.rendezvous.size(); ++m) {
    if (map.rendezvous[m].missing_members == 0 || !alike.rendezvous[m].fixed) continue;
    const auto& members = alike.rendezvous[m].members;
    double factor = 0;
    for (const auto& member : members) {
      factor += slower[member.rank] / static_cast<double>(members.size());
    }
    for (const auto& [rank, item] : members) {
      const SimTime whole = alike.ranks[rank].items[item].duration;
      const SimTime waiting = whole - never_last.ranks[rank].items[item].duration;
      if (waiting <= SimTime()) continue;
      SimTime& duration = changed.ranks[rank].items[item].duration;
      duration = duration.ScaledBy(1 + (factor - 1) * (waiting.us() / whole.us()));
    }
  }
}

}  // namespace

absl::StatusOr<std::optional<AbsentInterval>> IntervalOfAbsentRanks(const TraceStore& store,
                                                                    const SimulationSetup& setup,
                                                                    const Prediction& prediction,
                                                                    int64_t iteration) {
  const CompiledJob& job = prediction.job;
  if (job.symbolic || job.absent_rendezvous == 0 || job.semantics != Semantics::kFull ||
      (setup.network() != nullptr && setup.network()->contends())) {
    return std::nullopt;
  }
  AbsentInterval interval;
  std::set<uint32_t> communicators;
  for (const MatchedRendezvous& rendezvous : job.communicators.rendezvous) {
    if (rendezvous.missing_members > 0) communicators.insert(rendezvous.communicator);
  }
  interval.rendezvous = job.absent_rendezvous;
  interval.communicators = static_cast<int64_t>(communicators.size());
  interval.absent = store.world_size() - static_cast<int64_t>(store.ranks().size());
  std::vector<Program> unchanged;  // never last, alike
  const auto run = [&](const Program& program) -> absl::StatusOr<SimTime> {
    FORETRACE_ASSIGN_OR_RETURN(const Schedule schedule, Execute(store, program, setup.network()));
    return TimeOf(MeasureRanks(store, job, program, schedule), iteration);
  };
  for (const AbsentRanks absent :
       {AbsentRanks::kNeverLast, AbsentRanks::kAlike, AbsentRanks::kAsRecorded}) {
    CompileOptions options = setup.compile();
    options.absent = absent;
    FORETRACE_ASSIGN_OR_RETURN(CompiledJob other, CompileJob(store, setup, options));
    ScaleCpu(other.program, setup.cpu_scale());
    Program program = other.program;
    FORETRACE_RETURN_IF_ERROR(setup.what_if().Apply(store, other, setup.sizes(), program));
    FORETRACE_ASSIGN_OR_RETURN(const SimTime time, run(program));
    (absent == AbsentRanks::kNeverLast ? interval.never_last
     : absent == AbsentRanks::kAlike   ? interval.alike
                                       : interval.as_recorded) = time;
    unchanged.push_back(std::move(other.program));
    if (absent != AbsentRanks::kAlike) continue;
    ChangeWaiting(unchanged[1], unchanged[0], other.communicators, program);
    FORETRACE_ASSIGN_OR_RETURN(interval.changed_alike, run(program));
  }
  return interval;
}

}  // namespace foretrace
