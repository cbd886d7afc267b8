#pragma once
// Iteration time of a transformer under a parallel mapping: durations of passes and messages from
// physical parameters, their order from the pipeline schedule.

#include <cstdint>

#include "absl/status/statusor.h"
#include "simulator/base/time.h"
#include "simulator/base/units.h"
#include "simulator/mapping/parallel_mapping.h"
#include "simulator/mapping/pipeline_timing.h"

namespace foretrace {

// What a device and its network attain. Defaults: A100-SXM4-80GB, eight to a node with NVSwitch and
// one 200 Gb/s adapter each; peaks from data sheets.
struct ClusterParameters {
  FlopRate peak = FlopRate::Teraflops(312);
  double matrix_efficiency = 0.73;           // of the peak, for large products
  // A product with smallest dimension m attains m / (m + this) of that. Fits to measured iterations
  // find 0: their products are all large.
  double matrix_half_size = 0;
  Bandwidth peak_memory = Bandwidth::GBps(2039);
  double memory_efficiency = 0.8;
  Bandwidth intra_node = Bandwidth::GBps(230);  // bus bandwidth of an all-reduce within a node
  Bandwidth adapter = Bandwidth::GBps(20);      // per device, to other nodes
  SimTime collective_latency = SimTime::FromUs(30);
  // The CPU issues the kernels of one layer's forward pass no faster; also of its backward pass.
  SimTime launch_floor;
  int32_t devices_per_node = 8;
};

struct PassTimes {
  SimTime layer_forward, layer_backward;  // one layer, one micro-batch, tensor-parallel all-reduces in
  SimTime head_forward, head_backward;    // output layer and loss, on the last stage
  // One tensor-parallel all-reduce (or all-gather with reduce-scatter) of a micro-batch; a layer has
  // two forward, and these many backward, recomputation included.
  SimTime tensor_reduction;
  int32_t backward_reductions = 2;
  Bytes tensor_bytes;
  SimTime transfer;                       // of a micro-batch between neighbouring stages
  SimTime gradient_reduction;             // after the last backward pass
  SimTime optimizer;
  Bytes gradient_bytes;
};

struct IterationEstimate {
  SimTime time;
  SimTime pipeline;  // until the last pass
  PassTimes passes;
  double bubble = 0;  // idle share of the stages' time until the last pass
  double model_flop_utilisation = 0;
};

// The model must be dense. Errors: as CheckMapping.
absl::StatusOr<PassTimes> TimePasses(const TransformerConfig& model, const ParallelMapping& mapping,
                                     const ClusterParameters& cluster);
absl::StatusOr<IterationEstimate> EstimateIteration(const TransformerConfig& model,
                                                    const ParallelMapping& mapping,
                                                    const ClusterParameters& cluster);

// Stages with `layer` durations each, embedding free, head on the last chunk of the last stage.
absl::StatusOr<TimedPipeline> PipelineOf(const TransformerConfig& model,
                                         const ParallelMapping& mapping, const PassTimes& passes);

}  // namespace foretrace
