#pragma once
// The form that nodes take in Chakra's schema: their types, and the dependencies that follow from
// where and by what they were issued.

#include <cstdint>
#include <vector>

#include "chakra.pb.h"
#include "simulator/trace/rank_trace.h"

namespace foretrace::chakra_wire {

// COMM_COLL's comm_type; negative for what the schema has no value for.
int64_t CommType(CollectiveOp op);

// COMP_NODE where the type of a collective or the peer of a transfer is not known: other tools can
// only replay the time it took.
NodeType TypeInSchema(const RankTrace& rank, NodeIndex n);

// Whether others see the dependency. Rows of recorded traces are in order of start, and edges from
// later to earlier rows could form cycles with the program order: those only this project's reader
// sees.
inline bool IsVisible(const RankTrace& rank, NodeIndex consumer, NodeIndex producer) {
  return !rank.info().has_times || producer < consumer;
}

// Of recorded traces: the call or op that issued device work, and what came before on its thread or
// stream (`previous`, where any). Appends.
inline void AddIssueOrder(const RankTrace& rank, NodeIndex n, NodeIndex previous,
                          std::vector<NodeIndex>& producers) {
  if (!rank.info().has_times) return;
  const NodeIndex issuer = rank.launcher(n).valid() ? rank.launcher(n) : rank.parent(n);
  if (IsDeviceKind(rank.kind(n)) && issuer.valid() && issuer < n) producers.push_back(issuer);
  if (previous.valid()) producers.push_back(previous);
}

}  // namespace foretrace::chakra_wire
