#include "simulator/reconstruct/stream_priorities.h"

#include <algorithm>

#include "simulator/reconstruct/stream_queues.h"

namespace foretrace {
namespace {

constexpr int64_t kLeast = 5;
// No launch takes longer to reach an idle device (the files of devices state up to 12 us).
constexpr SimTime kLaunchTakes = SimTime::FromNs(20'000);

bool HasWaves(const RankTrace& rank, NodeIndex node) {
  return !IsCommunicationKind(rank.kind(node)) && rank.waves_milli(node) > 1000;
}

// How kernels of a stream began that were ready while another had blocks left to place.
struct Starts {
  int64_t at_once = 0;
  int64_t waited = 0;
};

class Counter {
 public:
  Counter(const RankTrace& rank, const std::vector<SyncEdge>& edges)
      : rank_(rank), edges_(edges), queues_(rank) {}

  Starts Of(LaneIndex stream) const {
    Starts starts;
    for (const StreamQueues::Entry& entry : queues_.of(stream)) {
      if (rank_.kind(entry.node) != NodeKind::kKernel || !HasWaves(rank_, entry.node)) continue;
      const SimTime ready = queues_.Explained(entry.node, edges_);
      for (uint32_t other = 0; other < rank_.lanes().size(); ++other) {
        if (LaneIndex(other) != stream) Count(entry.node, ready, LaneIndex(other), starts);
      }
    }
    return starts;
  }

 private:
  // With what the other stream had running when the kernel was ready.
  void Count(NodeIndex kernel, SimTime ready, LaneIndex other, Starts& starts) const {
    const auto& queue = queues_.of(other);
    const size_t running = queues_.EndedBy(other, ready);
    if (running == queue.size()) return;
    const NodeIndex met = queue[running].node;
    if (rank_.start(met) > ready || !HasWaves(rank_, met)) return;
    const SimTime wave =
        rank_.duration(met).ScaledBy(1000.0 / static_cast<double>(rank_.waves_milli(met)));
    const SimTime placed = rank_.end(met) - wave;
    if (placed - wave < ready + kLaunchTakes) return;
    ++(rank_.start(kernel) < placed - wave ? starts.at_once : starts.waited);
  }

  const RankTrace& rank_;
  const std::vector<SyncEdge>& edges_;
  StreamQueues queues_;
};

}  // namespace

std::vector<bool> FindPriorityStreams(const RankTrace& rank,
                                      const std::vector<SyncEdge>& device_edges) {
  std::vector<bool> priority(rank.lanes().size(), false);
  std::vector<bool> fills(rank.lanes().size(), false);
  for (uint32_t i = 0; i < rank.size(); ++i) {
    const NodeIndex n(i);
    if (HasWaves(rank, n)) fills[rank.lane(n).value] = true;
  }
  if (std::ranges::count(fills, true) < 2) return priority;
  const Counter counter(rank, device_edges);
  for (uint32_t lane = 0; lane < priority.size(); ++lane) {
    if (!fills[lane]) continue;
    const Starts starts = counter.Of(LaneIndex(lane));
    priority[lane] = starts.at_once + starts.waited >= kLeast && starts.at_once > starts.waited;
  }
  return priority;
}

}  // namespace foretrace
