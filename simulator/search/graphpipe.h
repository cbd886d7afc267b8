#pragma once
// GraphPipe's partitioner: a pipeline whose stages form a DAG that keeps the model's branches
// (dissertation chapter 3, algorithms 2 and 3).

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/base/real_quantities.h"
#include "simulator/mapping/device_measurements.h"
#include "simulator/plan/in_flight.h"
#include "simulator/plan/pipeline_timing.h"
#include "simulator/search/op_graph.h"

namespace foretrace {

struct GraphPipeOp {
  std::string name;  // for messages; may be empty
  // For 2^i samples on one device, i = 0, 1, ...; both lists equally long.
  std::vector<RealSeconds> forward;
  std::vector<RealSeconds> backward;
  RealBytes fixed_bytes;     // weights, gradients, optimizer state
  RealBytes gradient_bytes;  // all-reduced over data-parallel devices, once per mini-batch
  RealBytes stash_bytes;     // per sample between forward and backward
  // Of the times, what tensor parallelism exchanges; empty: nothing.
  struct Exchanges {
    std::vector<RealSeconds> times;  // as those of the passes
    RealBytes bytes;                 // per sample
    int32_t count = 0;
  };
  Exchanges forward_exchanges, backward_exchanges;
  // The part of one device where several divide it, their exchange included: by the problem's
  // `widths`.
  std::vector<GraphPipeOp> parts;
};

struct GraphPipeEdge {
  int32_t from = 0;
  int32_t to = 0;
  RealBytes bytes;  // per sample
};

struct GraphPipeProblem {
  std::vector<GraphPipeOp> ops;
  std::vector<GraphPipeEdge> edges;
  int32_t devices = 1;
  RealBytes memory;        // per device
  Bandwidth bandwidth;     // between any two devices
  int32_t mini_batch = 1;  // samples; a power of two
  // Candidates: powers of two. Empty micro-batches: all that divide the mini-batch.
  std::vector<int32_t> micro_batches;
  std::vector<int32_t> k = {1};
  // One micro-batch size for all stages, swept over the candidates; else each stage may choose.
  bool uniform_micro_batch = true;
  // Forget the branches: operators in topological order (sequential pipeline parallelism).
  bool sequential = false;
  // Tensor-parallel widths that stages may have besides 1.
  std::vector<int32_t> widths = {};

  // Of an all-reduce among replicas, `span` devices from one to the next; empty: by rings at
  // `bandwidth`.
  std::function<RealSeconds(int32_t replicas, int32_t span, RealBytes bytes)> all_reduce;
  CostSources sources;  // of the operators' kernels, at all sizes and widths

  // An operator as one device of a stage of that width has it.
  const GraphPipeOp& PartOf(int32_t op, int32_t width) const;
};

struct GraphPipeStage {
  std::vector<int32_t> ops;
  int32_t devices = 1;
  int32_t tensor = 1;  // of the devices, those that divide one replica's operators among them
  StageConfig config;
  // Of `ops`, those that run again before the backward pass and keep nothing but what enters them
  // from others.
  std::vector<int32_t> recomputed;
  int64_t in_flight_samples = 0;
  RealSeconds time_per_sample;
  RealBytes memory;  // per device
  // Per sample, of all devices: kept until the backward pass; and made again for it.
  RealBytes stash_bytes, repeated_bytes;
  std::vector<int32_t> successors;

  int32_t replicas() const { return devices / tensor; }
};

struct GraphPipePlan {
  RealSeconds bottleneck;  // time per sample of the slowest stage: what the search minimises
  RealSeconds iteration;   // simulated, with pipeline fill and gradient all-reduce
  int32_t depth = 0;       // stages on the longest path
  int32_t devices = 0;
  std::vector<GraphPipeStage> stages;
  int32_t linearised = 0;  // operators whose branches could not be kept
};

// Gradients of a stage that its replicas sum once per mini-batch.
struct GradientReduction {
  RealBytes bytes;
  RealSeconds time;
};
GradientReduction ReductionOf(const GraphPipeProblem& problem, const GraphPipeStage& stage);

// For each candidate, binary search on the bottleneck's time per sample; a dynamic program over the
// series-parallel tree answers whether some stage graph reaches it. Among plans the simulated
// iteration time decides. A stage of d devices with micro-batches of b samples has
//   time per sample = max(compute(b/d) / b, (bytes in + out) / (d bw))
//                     + 2 (d-1)/d gradient bytes / bw / B,
//   memory = fixed + in-flight samples * stash / d     with d a power of two that divides b.
// Partitions of the operators in topological order are candidates as well, so that stages may span
// branches; their stages still depend on each other only where the operators do.
// An operator that joins branches may share a stage with the end of one branch; the others then
// feed that stage.
// Errors: invalid problems; infeasible: nothing fits in memory.
absl::StatusOr<GraphPipePlan> PartitionGraphPipe(const GraphPipeProblem& problem);

// In-flight counts, dependencies, memory and simulated iteration of given stages, of which
// operators, devices, configurations and recomputation count. Devices need not be powers of two:
// the slowest has ceil(b / devices) samples. In-flight counts are those of 1F1B or kFkB over the
// stage graph; with problem.sequential the stages form a chain in their order. Errors, infeasible,
// by the condition that is violated (C1, C2, C5) or the stage that does not fit in memory: what
// takes it, by how much it is too small, and what would fit.
absl::StatusOr<GraphPipePlan> EvaluateStages(const GraphPipeProblem& problem,
                                             std::vector<GraphPipeStage> stages);

// Steps from a plan that shorten its simulated iteration, as long as there are any (within a fixed
// budget of simulation): devices of a stage doubled, halved or exchanged, another size of
// micro-batch, stages joined, operators moved across borders. `plan` is one of EvaluateStages or
// PartitionGraphPipe for the same problem.
absl::StatusOr<GraphPipePlan> RefinePlan(const GraphPipeProblem& problem, GraphPipePlan plan);

// The plan as timed stages, for pictures and tests. Durations rounded to picoseconds.
TimedPipeline TimedPipelineOf(const GraphPipeProblem& problem, const GraphPipePlan& plan);

}  // namespace foretrace
