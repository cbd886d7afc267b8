#pragma once
// Collects dependencies and asks the recording about each: what it contradicts is dropped, and
// every rule is counted.

#include "simulator/reconstruct/sync_edges.h"
#include "simulator/reconstruct/sync_rules.h"
#include "simulator/trace/rank_trace.h"

namespace foretrace {

class EdgeList {
 public:
  explicit EdgeList(const RankTrace& rank) : rank_(rank) {}

  // Whether the recording allows that `consumer` waited for `producer`.
  bool Feasible(NodeIndex producer, NodeIndex consumer) const;

  // Adds the edge unless the recording contradicts it; whether it did. Nothing where `producer` is
  // invalid or the consumer itself.
  bool AddDeviceEdge(NodeIndex consumer, NodeIndex producer, SyncRule rule);

  // `certain`: kept whatever the recording says, which has been asked already.
  void AddBlockEdge(NodeIndex call, NodeIndex producer, SyncRule rule, bool certain = false);

  // Moves the edges, sorted, and the counts to `sync`; to be called once, at the end.
  void MoveTo(RankSync& sync);

 private:
  const RankTrace& rank_;
  std::vector<SyncEdge> device_edges_;
  std::vector<SyncEdge> block_edges_;
  RuleCount rules_[static_cast<int>(SyncRule::kCount)];
};

}  // namespace foretrace
