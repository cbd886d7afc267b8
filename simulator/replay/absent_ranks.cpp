#include "simulator/replay/absent_ranks.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "simulator/base/status_macros.h"
#include "simulator/engine/cpu_scale.h"
#include "simulator/engine/executor.h"
#include "simulator/engine/reorder.h"
#include "simulator/engine/step_times.h"
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

// Until its work is done; as `window` says, from the completion of the step before where that comes
// first.
SimTime UntilDone(const std::vector<std::vector<MeasuredStep>>& ranks, int64_t iteration,
                  StepWindow window) {
  SimTime longest;
  for (const std::vector<MeasuredStep>& steps : ranks) {
    for (const MeasuredStep& step : steps) {
      if (step.number != iteration) continue;
      const SimTime period = step.predicted.period.value_or(SimTime());
      const bool follows = window == StepWindow::kCompletions && period > SimTime();
      longest = std::max(longest, follows ? period : step.predicted.completion);
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

// What absent ranks may make of a change, on programs that alike and never_last were compiled to.
class AbsentChange {
 public:
  AbsentChange(const TraceStore& store, const CompiledJob& never_last, const CompiledJob& alike)
      : store_(store),
        never_last_(never_last.program),
        alike_(alike.program),
        map_(alike.communicators) {}

  // Absent ranks compute for as much longer, or shorter, as those at hand do since the change: so
  // does the waiting for them, which is what `alike` has beyond `never_last`.
  void ChangeWaiting(Program& changed) const {
    Change(changed, [](SimTime beyond_shortest, SimTime, double) { return beyond_shortest; });
  }

  // They come as early as the recording allows: all of the time in a rendezvous with them may have
  // been waiting, for work that the change makes shorter.
  void ComeEarly(Program& changed) const {
    Change(changed, [](SimTime beyond_shortest, SimTime whole, double factor) {
      return factor < 1 ? whole : beyond_shortest;
    });
  }

  // They come as late as the recording allows. All of the time in a rendezvous with them may have
  // been waiting, for work that the change makes longer. And where the stream held all members up
  // that were recorded, the inputs of absent ones may have been as late as elsewhere in the step.
  void ComeLate(Program& changed) const {
    Change(changed, [](SimTime beyond_shortest, SimTime whole, double factor) {
      return factor > 1 ? whole : beyond_shortest;
    });
    if (HaveTheSameItems(alike_, changed)) DelayInputs(changed);
  }

 private:
  SimTime BeyondShortest(const RendezvousProgram::Member& member) const {
    return DurationIn(alike_, member) - DurationIn(never_last_, member);
  }
  static SimTime DurationIn(const Program& program, const RendezvousProgram::Member& member) {
    return program.ranks[member.rank].items[member.item].duration;
  }
  bool HasAbsent(size_t rendezvous) const {
    return map_.rendezvous[rendezvous].missing_members > 0 && alike_.rendezvous[rendezvous].fixed;
  }

  // `waiting`: of a member, by what it took beyond the shortest, by all that it took, and by the
  // factor.
  template <typename Waiting>
  void Change(Program& changed, const Waiting& waiting) const {
    if (!HaveTheSameItems(alike_, changed)) return;
    std::vector<double> slower;
    for (size_t r = 0; r < alike_.ranks.size(); ++r) {
      const SimTime before = ComputeOf(alike_.ranks[r]);
      slower.push_back(before > SimTime() ? ComputeOf(changed.ranks[r]).us() / before.us() : 1.0);
    }
    for (size_t m = 0; m < alike_.rendezvous.size(); ++m) {
      if (!HasAbsent(m)) continue;
      const auto& members = alike_.rendezvous[m].members;
      double factor = 0;
      for (const auto& member : members) {
        factor += slower[member.rank] / static_cast<double>(members.size());
      }
      for (const auto& member : members) {
        const SimTime whole = DurationIn(alike_, member);
        const SimTime waited = waiting(BeyondShortest(member), whole, factor);
        if (waited <= SimTime()) continue;
        SimTime& duration = changed.ranks[member.rank].items[member.item].duration;
        duration = duration.ScaledBy(1 + (factor - 1) * (waited.us() / whole.us()));
      }
    }
  }

  int64_t StepOf(const RendezvousProgram::Member& member) const {
    const RankTrace& rank = store_.ranks()[member.rank];
    return rank.iteration_at(rank.start(alike_.ranks[member.rank].items[member.item].node));
  }

  // How long the work before it on its stream held a member up beyond its inputs, as recorded; none
  // where it did not.
  SimTime HeldByStream(const RendezvousProgram::Member& member) const {
    const RankProgram& program = alike_.ranks[member.rank];
    const RankTrace& rank = store_.ranks()[member.rank];
    const Item& item = program.items[member.item];
    if (member.item == program.lanes[item.lane].begin) return SimTime();
    std::optional<SimTime> inputs;
    ForEachInput(program, member.item, [&](const ItemWait& wait) {
      const SimTime at = rank.end(program.items[wait.item].node) + program.lags[wait.lag];
      inputs = std::max(inputs.value_or(at), at);
    });
    if (!inputs.has_value()) return SimTime();
    return std::max(SimTime(), rank.end(program.items[member.item - 1].node) - *inputs);
  }

  // Device work of other streams that an item waits for.
  template <typename Do>
  static void ForEachInput(const RankProgram& program, uint32_t item, const Do& act) {
    for (uint32_t w = program.items[item].waits_begin; w < program.waits_end(item); ++w) {
      const ItemWait& wait = program.waits[w];
      if (!wait.on_start && wait.cause == WaitCause::kDependency) act(wait);
    }
  }

  void DelayInputs(Program& changed) const {
    // By communicator and step: the longest that an absent rank was waited for.
    std::map<std::pair<uint32_t, int64_t>, SimTime> latest;
    for (size_t m = 0; m < alike_.rendezvous.size(); ++m) {
      if (!HasAbsent(m)) continue;
      for (const auto& member : alike_.rendezvous[m].members) {
        SimTime& late = latest[{map_.rendezvous[m].communicator, StepOf(member)}];
        late = std::max(late, BeyondShortest(member));
      }
    }
    std::vector<std::vector<WaitOfItem>> added(changed.ranks.size());
    for (size_t m = 0; m < alike_.rendezvous.size(); ++m) {
      if (!HasAbsent(m)) continue;
      for (const auto& member : alike_.rendezvous[m].members) {
        const SimTime late = std::min(HeldByStream(member),
                                      latest[{map_.rendezvous[m].communicator, StepOf(member)}]);
        if (late <= SimTime()) continue;
        RankProgram& program = changed.ranks[member.rank];
        std::vector<ItemWait> waits;
        ForEachInput(program, member.item, [&](const ItemWait& wait) { waits.push_back(wait); });
        for (ItemWait& wait : waits) {
          wait.lag = program.lags.Add(program.lags[wait.lag] + late);
          added[member.rank].emplace_back(member.item, wait);
        }
      }
    }
    for (size_t r = 0; r < added.size(); ++r) {
      if (added[r].empty()) continue;
      std::vector<WaitOfItem> waits = WaitsOf(changed.ranks[r]);
      waits.insert(waits.end(), added[r].begin(), added[r].end());
      SetWaitsAndQueue(changed.ranks[r], std::move(waits));
    }
  }

  const TraceStore& store_;
  const Program& never_last_;
  const Program& alike_;
  const CommunicatorMap& map_;
};

}  // namespace

absl::StatusOr<std::optional<AbsentInterval>> IntervalOfAbsentRanks(const TraceStore& store,
                                                                    const SimulationSetup& setup,
                                                                    const Prediction& prediction,
                                                                    int64_t iteration,
                                                                    StepWindow window) {
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
  const auto run = [&](const Program& program) -> absl::StatusOr<SimTime> {
    FORETRACE_ASSIGN_OR_RETURN(const Schedule schedule, Execute(store, program, setup.network()));
    return window == StepWindow::kMarks
               ? TimeOf(MeasureRanks(store, job, program, schedule), iteration)
               : UntilDone(MeasureSteps(store, program, schedule), iteration, window);
  };
  std::vector<CompiledJob> unchanged;  // never last, alike
  for (const AbsentRanks absent :
       {AbsentRanks::kNeverLast, AbsentRanks::kAlike, AbsentRanks::kAsRecorded}) {
    CompileOptions options = setup.compile();
    options.absent = absent;
    FORETRACE_ASSIGN_OR_RETURN(CompiledJob other, CompileJob(store, setup, options, &job));
    ScaleCpu(other.program, setup.cpu_scale());
    Program program = other.program;
    FORETRACE_RETURN_IF_ERROR(setup.what_if().Apply(store, other, setup.sizes(), program));
    FORETRACE_ASSIGN_OR_RETURN(const SimTime time, run(program));
    (absent == AbsentRanks::kNeverLast ? interval.never_last
     : absent == AbsentRanks::kAlike   ? interval.alike
                                       : interval.as_recorded) = time;
    unchanged.push_back(std::move(other));
    if (absent != AbsentRanks::kAlike) continue;
    const AbsentChange change(store, unchanged[0], unchanged[1]);
    Program late = program, early = program;
    change.ChangeWaiting(program);
    FORETRACE_ASSIGN_OR_RETURN(interval.changed_alike, run(program));
    change.ComeEarly(early);
    FORETRACE_ASSIGN_OR_RETURN(interval.earliest, run(early));
    change.ComeLate(late);
    FORETRACE_ASSIGN_OR_RETURN(interval.latest, run(late));
  }
  return interval;
}

}  // namespace foretrace
