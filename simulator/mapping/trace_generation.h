#pragma once
// Per-rank traces of a mapping: what each device computes and sends, in which order.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/mapping/iteration_model.h"
#include "simulator/mapping/trace_emitter.h"

namespace foretrace {

// Rank ((stage * data + replica) * context + part) * tensor + shard. One trace per rank, without
// recorded times: kernels with durations on a compute stream, in the schedule's order; per layer
// its exchanges; sends and receives between stages with peer and tag; reductions of gradients, then
// the optimizer. Replayed with its own durations a job takes exactly as long as the folded
// EstimateIteration.
// Errors: as CheckMapping; infeasible: more than kMaxGeneratedNodes.
absl::StatusOr<std::vector<RankTraceBuilder::Result>> GenerateTraces(
    const TransformerConfig& model, const ParallelMapping& mapping, const PassTimes& passes,
    const GenerateOptions& options);

// A stage of a stage graph: its replicas share each micro-batch, and `tensor` devices divide each
// replica's operators.
struct GeneratedStage {
  std::string name;
  int32_t devices = 1;
  int32_t tensor = 1;
  SimTime gradient_reduction;
  Bytes gradient_bytes;
};

// Likewise of a stage graph: the ranks of stage 0, then of stage 1, ... `edge_bytes`: of a message
// between two devices, by edge of the pipeline. Where neighbours differ in micro-batch size,
// messages carry the larger one. Takes as long as TimePipeline, with each stage's reduction after
// its end.
absl::StatusOr<std::vector<RankTraceBuilder::Result>> GenerateStageTraces(
    const TimedPipeline& pipeline, const std::vector<GeneratedStage>& stages,
    const std::vector<Bytes>& edge_bytes, DType dtype, const GenerateOptions& options);

}  // namespace foretrace
