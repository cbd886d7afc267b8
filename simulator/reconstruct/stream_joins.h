#pragma once
// Which stream has waited for what of the others; a detail of sync_rules.cpp.

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "simulator/trace/rank_trace.h"

namespace foretrace {

class StreamJoins {
 public:
  explicit StreamJoins(const RankTrace& rank) : rank_(rank), issued_(rank.lanes().size()) {}

  // In order of issue.
  void Issued(NodeIndex device) { issued_[rank_.lane(device).value].push_back(device); }
  // The last work on the stream that was issued before the call.
  NodeIndex HeldAt(NodeIndex call, LaneIndex stream) const;
  // False where `stream` has waited for that or for later work before: nobody does so again.
  bool Join(LaneIndex stream, NodeIndex producer);

 private:
  const RankTrace& rank_;
  std::vector<std::vector<NodeIndex>> issued_;  // by lane
  // The last that was waited for, by who waits and the stream that did it.
  absl::flat_hash_map<std::pair<uint32_t, uint32_t>, NodeIndex> joined_;
};

}  // namespace foretrace
