#pragma once
// Which operator's output another one reads, from the tensors of an execution trace.

#include <cstdint>
#include <vector>

#include "simulator/importers/pytorch_et/document.h"
#include "simulator/trace/kinds.h"

namespace foretrace::pytorch_et {

struct Edge {
  uint32_t consumer = 0;  // positions in Document::nodes
  uint32_t producer = 0;
  DependencyKind kind = DependencyKind::kData;
};

// Parent, or -1, of each node, by position. Parents that are absent or come later are dropped.
std::vector<int32_t> ParentPositions(const Document& document);

// The operator that stands for each communication: a c10d:: operator, or a record_param_comms
// outside any. Returns, by position, the standing operator of each node at or below one, else -1.
std::vector<int32_t> CommunicationOwners(const Document& document,
                                         const std::vector<int32_t>& parents);

// Data dependencies between operators, tracked per storage and byte range in the order in which
// operators began: a reader depends on the last writers of the bytes it reads. In-place arguments
// are known from the operator's schema; views write nothing, so that dependencies go through them.
// Of nested operators, the innermost that touches a storage counts, so that edges are not repeated
// by its callers. Pure allocations count as writers only until somebody fills the memory.
// Waits on a collective, which the trace gives by sequence number, come out as kSync edges.
std::vector<Edge> FindDependencies(const Document& document, const std::vector<int32_t>& parents,
                                   const std::vector<int32_t>& comm_owners);

}  // namespace foretrace::pytorch_et
