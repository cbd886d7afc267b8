#pragma once
// Per-rank traces of a mapping: what each device computes and sends, in which order.

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/mapping/iteration_model.h"
#include "simulator/trace/builder.h"

namespace foretrace {

// Rank (stage * data + replica) * tensor + shard. One trace per rank, without recorded times:
// kernels with durations on a compute stream, in the schedule's order; per layer the tensor-parallel
// all-reduces; sends and receives between stages with peer and tag; after the last backward pass the
// gradient all-reduce, then the optimizer. Communication has sizes, not durations: the network model
// gives those. Replaying with the durations of `passes` takes exactly as long as the folded
// EstimateIteration.
// Errors: as CheckMapping; infeasible: more than 100 million nodes in all.
absl::StatusOr<std::vector<RankTraceBuilder::Result>> GenerateTraces(
    const TransformerConfig& model, const ParallelMapping& mapping, const PassTimes& passes);

}  // namespace foretrace
