#pragma once
// Communication nodes of one rank and one communicator, in order of issue; a detail of
// communicators.h.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

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
  std::vector<uint64_t> ops;   // what must agree between members, per node
  std::vector<int64_t> bytes;  // what should, where both have it; 0: not recorded, or may differ
  uint64_t signature = 0;      // of all ops
};

// Whether a's i-th operation can be b's j-th.
bool Agree(const CommSequence& a, size_t i, const CommSequence& b, size_t j);
// The same of their sizes.
bool AgreeInSize(const CommSequence& a, size_t i, const CommSequence& b, size_t j);

std::vector<CommSequence> CollectCommSequences(const TraceStore& store);

// Sends, receives, and kernels that serve several of them.
bool IsPointToPoint(const RankTrace& rank, NodeIndex n);

// "all_reduce of 4096 bytes"
std::string DescribeCommOp(const RankTrace& rank, NodeIndex node);

// Members in group order where the group is declared with its ranks, or declared as "all ranks".
std::optional<std::vector<int32_t>> DeclaredRanks(const TraceStore& store, const RankTrace& rank,
                                                  const CommAttr& attr);

}  // namespace foretrace
