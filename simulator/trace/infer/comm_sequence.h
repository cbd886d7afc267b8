#pragma once
// Communication nodes of one rank and one communicator, in order of issue; a detail of
// communicators.h.

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/trace/rank_trace.h"

namespace foretrace {

struct CommSequence {
  uint32_t rank = 0;  // index into TraceStore::ranks()
  LaneIndex lane;
  std::string group_name;
  std::optional<std::vector<int32_t>> declared_ranks;
  int32_t declared_size = 0;
  bool point_to_point = false;  // sends, receives and fused exchanges
  bool grouped = false;
  std::vector<NodeIndex> nodes;
  std::vector<uint64_t> ops;  // what must agree between members, per node
  uint64_t signature = 0;     // of all ops
};

std::vector<CommSequence> CollectCommSequences(const TraceStore& store);

// "all_reduce of 4096 bytes"
std::string DescribeCommOp(const RankTrace& rank, NodeIndex node);

struct PointToPointPair {
  std::string communicator_name;
  std::vector<int32_t> ranks;
  uint32_t missing_members = 0;
  bool declared = false;
  std::vector<std::pair<uint32_t, NodeIndex>> members;  // (rank index, node)
};

// Errors: a send whose receiver's trace has no matching receive, naming both.
absl::StatusOr<std::vector<PointToPointPair>> PairSendsAndReceives(
    const TraceStore& store, const std::vector<CommSequence>& sequences);

}  // namespace foretrace
