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

// How kernels of a stream began that met work of others with blocks left to place.
struct Meetings {
  int64_t at_once = 0;
  int64_t waited = 0;
};

class Counter {
 public:
  Counter(const RankTrace& rank, const std::vector<SyncEdge>& edges)
      : rank_(rank), edges_(edges), queues_(rank) {}

  Meetings Of(LaneIndex stream) const {
    Meetings meetings;
    for (const StreamQueues::Entry& entry : queues_.of(stream)) {
      if (rank_.kind(entry.node) != NodeKind::kKernel || !HasWaves(rank_, entry.node)) continue;
      const SimTime ready = queues_.Explained(entry.node, edges_);
      for (uint32_t other = 0; other < rank_.lanes().size(); ++other) {
        if (LaneIndex(other) != stream) Meet(entry.node, ready, LaneIndex(other), meetings);
      }
    }
    return meetings;
  }

 private:
  // With what the other stream had running when the kernel was ready.
  void Meet(NodeIndex kernel, SimTime ready, LaneIndex other, Meetings& meetings) const {
    const auto& queue = queues_.of(other);
    const size_t running = queues_.EndedBy(other, ready);
    if (running == queue.size()) return;
    const NodeIndex met = queue[running].node;
    if (rank_.start(met) > ready || !HasWaves(rank_, met)) return;
    const SimTime wave =
        rank_.duration(met).ScaledBy(1000.0 / static_cast<double>(rank_.waves_milli(met)));
    const SimTime placed = rank_.end(met) - wave;
    if (placed - wave < ready + kLaunchTakes) return;
    ++(rank_.start(kernel) < placed - wave ? meetings.at_once : meetings.waited);
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
    const Meetings meetings = counter.Of(LaneIndex(lane));
    priority[lane] =
        meetings.at_once + meetings.waited >= kLeast && meetings.at_once > meetings.waited;
  }
  return priority;
}

}  // namespace foretrace
