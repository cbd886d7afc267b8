#include "simulator/reconstruct/edge_list.h"

#include <algorithm>
#include <utility>

#include "simulator/reconstruct/clock_noise.h"

namespace foretrace {
namespace {

// What starts, or returns, so soon after the end of what it waited for was held by it. These only
// count.
constexpr SimTime kTightStart = SimTime::FromNs(10'000);
constexpr SimTime kTightReturn = SimTime::FromNs(30'000);

}  // namespace

bool EdgeList::Feasible(NodeIndex producer, NodeIndex consumer) const {
  return rank_.end(producer) <= rank_.start(consumer) + kClockResolution;
}

bool EdgeList::AddDeviceEdge(NodeIndex consumer, NodeIndex producer, SyncRule rule) {
  if (!producer.valid() || producer == consumer) return false;
  RuleCount& count = rules_[static_cast<int>(rule)];
  ++count.applied;
  if (!Feasible(producer, consumer)) {
    ++count.violations;
    return false;
  }
  if (rank_.start(consumer) - rank_.end(producer) <= kTightStart) ++count.tight;
  device_edges_.push_back({consumer, producer, rule});
  return true;
}

void EdgeList::AddBlockEdge(NodeIndex call, NodeIndex producer, SyncRule rule, bool certain) {
  if (!producer.valid()) return;
  RuleCount& count = rules_[static_cast<int>(rule)];
  ++count.applied;
  const SimTime slack = rank_.end(call) - rank_.end(producer);
  if (slack < -kClockResolution) {
    ++count.violations;
    if (slack < -kClockNoise && !certain) return;
  } else if (rank_.end(producer) > rank_.start(call) && slack <= kTightReturn) {
    ++count.tight;
  }
  block_edges_.push_back({call, producer, rule});
}

void EdgeList::MoveTo(RankSync& sync) {
  sync.device_edges = std::move(device_edges_);
  sync.block_edges = std::move(block_edges_);
  SortEdges(sync.device_edges);
  SortEdges(sync.block_edges);
  std::copy(std::begin(rules_), std::end(rules_), std::begin(sync.rules));
}

}  // namespace foretrace
