#include "simulator/engine/fences.h"

#include <algorithm>
#include <map>
#include <utility>

#include "simulator/base/statistics.h"
#include "simulator/base/status_macros.h"

namespace foretrace {
namespace {

constexpr int kRounds = 2;

// While a collective of a rank has stores under way.
struct Moving {
  SimTime begin, end;
  SimTime wait;  // of a kernel that ends then
};

// By lane, in order of time: work of one stream runs in turn.
std::vector<std::vector<Moving>> MovingOf(const Program& program, const Schedule& schedule,
                                          uint32_t r) {
  const RankProgram& rank = program.ranks[r];
  std::vector<std::vector<Moving>> lanes(rank.lanes.size());
  for (uint32_t i = 0; i < rank.items.size(); ++i) {
    const Item& item = rank.items[i];
    if (item.kind != ItemKind::kComm) continue;
    const RendezvousProgram& rendezvous = program.rendezvous[item.rendezvous];
    const SimTime end = schedule.ranks[r].end[i];
    const SimTime own =
        rendezvous.fixed ? item.duration : end - schedule.rendezvous_active[item.rendezvous];
    const SimTime begin = end - own;
    const SimTime moving = std::min(own, rendezvous.moving);
    if (moving <= SimTime()) continue;
    lanes[item.lane].push_back(rendezvous.sends ? Moving{begin, begin + moving, rank.fences.sends}
                                                : Moving{end - moving, end, rank.fences.ring});
  }
  return lanes;
}

SimTime WaitAt(const std::vector<std::vector<Moving>>& lanes, uint32_t own_lane, SimTime at) {
  SimTime wait;
  for (uint32_t l = 0; l < lanes.size(); ++l) {
    if (l == own_lane) continue;
    const auto next =
        std::ranges::partition_point(lanes[l], [&](const Moving& m) { return m.end < at; });
    if (next != lanes[l].end() && next->begin <= at) wait = std::max(wait, next->wait);
  }
  return wait;
}

// Copies use engines of their own; communication that meets nobody stays as recorded.
bool IsKernel(const RankTrace& trace, const Item& item) {
  if (item.kind != ItemKind::kDevice) return false;
  const NodeKind kind = trace.kind(item.node);
  return kind == NodeKind::kKernel || kind == NodeKind::kMemset;
}

// By item of a rank; empty: nothing waits.
std::vector<SimTime> WaitsOf(const TraceStore& store, const Program& program,
                             const Schedule& schedule, uint32_t r) {
  const RankProgram& rank = program.ranks[r];
  const std::vector<std::vector<Moving>> moving = MovingOf(program, schedule, r);
  if (std::ranges::all_of(moving, &std::vector<Moving>::empty)) return {};
  std::vector<SimTime> waits(rank.items.size());
  for (uint32_t i = 0; i < rank.items.size(); ++i) {
    const Item& item = rank.items[i];
    if (!IsKernel(store.ranks()[r], item)) continue;
    const SimTime fenced = rank.fenced.empty() ? SimTime() : rank.fenced[i];
    waits[i] = WaitAt(moving, item.lane, schedule.ranks[r].end[i] - fenced);
  }
  return waits;
}

SimTime RecordedWait(const CompiledJob& job, uint32_t r, NodeIndex node) {
  const auto& of_rank = job.recorded_fences[r];
  const auto at =
      std::ranges::lower_bound(of_rank, node, {}, [](const auto& x) { return x.first; });
  return at != of_rank.end() && at->first == node ? at->second : SimTime();
}

// Whether any duration changed.
bool SetFences(const TraceStore& store, const Schedule& schedule, CompiledJob& job) {
  bool changed = false;
  for (uint32_t r = 0; r < job.program.ranks.size(); ++r) {
    RankProgram& rank = job.program.ranks[r];
    std::vector<SimTime> waits = WaitsOf(store, job.program, schedule, r);
    if (waits.empty() && job.recorded_fences.empty()) continue;
    waits.resize(rank.items.size());
    rank.fenced.resize(rank.items.size());
    for (uint32_t i = 0; i < rank.items.size(); ++i) {
      Item& item = rank.items[i];
      if (!IsKernel(store.ranks()[r], item)) continue;
      SimTime wait = waits[i];
      if (item.source == EstimateSource::kRecorded) {
        wait = job.recorded_fences.empty() ? SimTime() : wait - RecordedWait(job, r, item.node);
      }
      // What is taken from a recorded kernel leaves it some time.
      wait = std::max(wait, rank.fenced[i] - item.duration);
      if (wait == rank.fenced[i]) continue;
      item.duration = item.duration + wait - rank.fenced[i];
      rank.fenced[i] = wait;
      changed = true;
    }
  }
  return changed;
}

}  // namespace

bool HasFences(const Program& program) {
  return std::ranges::any_of(program.ranks, [](const RankProgram& rank) {
    return rank.fences.ring > SimTime() || rank.fences.sends > SimTime();
  });
}

absl::StatusOr<Prediction> ReplayWithFences(const TraceStore& store, CompiledJob job,
                                            NetworkModel* network) {
  const bool once = network != nullptr && network->contends();
  FORETRACE_ASSIGN_OR_RETURN(Prediction prediction, Replay(store, std::move(job), network));
  if (once || !HasFences(prediction.job.program)) return prediction;
  for (int round = 0; round < kRounds; ++round) {
    if (!SetFences(store, prediction.schedule, prediction.job)) break;
    FORETRACE_ASSIGN_OR_RETURN(prediction, Replay(store, std::move(prediction.job), network));
  }
  return prediction;
}

void RemoveFences(Program& program) {
  for (RankProgram& rank : program.ranks) {
    for (uint32_t i = 0; i < rank.fenced.size(); ++i) rank.items[i].duration -= rank.fenced[i];
    rank.fenced.clear();
  }
}

namespace {

// By how much kernels that end beside moving data took longer than the same kernels alone, as
// shares of what they are thought to wait.
class Evidence {
 public:
  void Add(const RankTrace& trace, NodeIndex node, SimTime wait) {
    Kernels& kernels = kernels_[{trace.name(node), trace.waves_milli(node)}];
    const SimTime took = trace.end(node) - trace.start(node);
    if (wait > SimTime()) {
      kernels.beside.emplace_back(took, wait);
    } else {
      kernels.alone.push_back(took.seconds());
    }
  }
  // The rank is complete: names are its own.
  void EndRank() {
    for (const auto& [kind, kernels] : kernels_) {
      if (kernels.alone.empty()) continue;
      const double alone = Quantile(kernels.alone, 0.5);
      for (const auto& [took, wait] : kernels.beside) {
        shares_.push_back((took.seconds() - alone) / wait.seconds());
      }
    }
    kernels_.clear();
  }
  // Kernels of one name that differ in size scatter, and show nothing.
  bool shown() const {
    if (shares_.size() < kLeast) return false;
    const double median = Quantile(shares_, 0.5);
    return median >= 0.5 && median <= 2 && Quantile(shares_, 0.1) > 0;
  }

 private:
  static constexpr size_t kLeast = 5;
  struct Kernels {
    std::vector<double> alone;  // seconds
    std::vector<std::pair<SimTime, SimTime>> beside;
  };
  std::map<std::pair<StringId, uint32_t>, Kernels> kernels_;  // by name and size of the grid
  std::vector<double> shares_;
};

}  // namespace

std::vector<std::vector<std::pair<NodeIndex, SimTime>>> FencesOf(const TraceStore& store,
                                                                 const Prediction& recorded) {
  Evidence evidence;
  std::vector<std::vector<std::pair<NodeIndex, SimTime>>> fences;
  for (uint32_t r = 0; r < recorded.job.program.ranks.size(); ++r) {
    auto& of_rank = fences.emplace_back();
    const std::vector<SimTime> waits = WaitsOf(store, recorded.job.program, recorded.schedule, r);
    const RankTrace& trace = store.ranks()[r];
    for (uint32_t i = 0; i < waits.size(); ++i) {
      const Item& item = recorded.job.program.ranks[r].items[i];
      if (!IsKernel(trace, item) || item.source != EstimateSource::kRecorded) continue;
      evidence.Add(trace, item.node, waits[i]);
      if (waits[i] > SimTime()) of_rank.emplace_back(item.node, waits[i]);
    }
    evidence.EndRank();
    std::ranges::sort(of_rank);
  }
  if (!evidence.shown()) fences.clear();
  return fences;
}

}  // namespace foretrace
