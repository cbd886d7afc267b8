#pragma once
// What one call of a trace says about another: forward and backward passes of one operator.

#include <cstdint>
#include <optional>

#include "absl/container/flat_hash_map.h"
#include "simulator/cost/operator/trace_operator.h"
#include "simulator/trace/rank_trace.h"

namespace foretrace {

// Operators by call; nullopt: not an operator.
using TracedCalls = absl::flat_hash_map<uint32_t, std::optional<TracedOperator>>;

// Traces of shapes leave out results. A convolution's output size is in the gradient of a backward
// pass with the same input and filters; a batched lookup's dimensions are in the gradient of its
// backward pass, and that one's lookups in the forward pass (the latest with as many bags that no
// backward pass has claimed). Lookups whose partner is not there are dropped.
void CompletePairs(TracedCalls& calls);

// A convolution whose output is still not known hands it on: to the addition of its bias, or to a
// norm. The next call of its thread that takes a tensor of as many images and channels names it.
void CompleteFromFollowers(const RankTrace& rank, TracedCalls& calls);

// A concatenation of a list without shapes, as older profiles write lists. Within the gradient of a
// split its parts are that node's arguments; else its result is the first tensor of the next call
// of its thread that has any and clears none. nullopt: none is near. Assumed.
std::optional<TracedOperator> ConcatFromNeighbours(const TraceStore& store, const RankTrace& rank,
                                                   NodeIndex call);

}  // namespace foretrace
