#pragma once
// Phaze's device placement: Wang, Tarnawski, Phanishayee and Mahajan, "Integrated hardware
// architecture and device placement search" (ICML 2024), section 5, equations 17 and 18.

#include <cstdint>
#include <map>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/search/op_graph.h"

namespace foretrace {

// One layer at one tensor-parallel width; s per microbatch, bytes per device.
struct PhazeLayer {
  double forward_s = 0;
  double backward_s = 0;
  double parameter_bytes = 0;
  double activation_bytes = 0;
  // The layer is sliced at this width, so that a stage with it needs that many accelerators.
  bool sliced = false;
};

struct PhazeEdge {
  int32_t from = 0;
  int32_t to = 0;
  double bytes = 0;  // per microbatch
};

struct PhazeProblem {
  int32_t layers = 0;
  std::vector<PhazeEdge> edges;
  std::map<int32_t, std::vector<PhazeLayer>> by_width;  // layers at each tensor-parallel width
  int32_t accelerators = 1;
  int32_t microbatches = 1;  // per minibatch, B
  double bandwidth = 0;      // bytes/s
  double memory_bytes = 0;   // per accelerator
  // Bytes of optimizer state per byte of parameters: 0 SGD, 1 as the published program has Adam.
  double optimizer_factor = 0;
  // Keep only stage inputs and repeat the forward pass, except in the last stage.
  bool recompute = false;
  size_t max_downsets = 20'000;
};

struct PhazeStage {
  std::vector<int32_t> layers;
  int32_t accelerators = 1;
  double load_s = 0;
  double memory_bytes = 0;
};

struct PhazePlan {
  double batch_s = 0;
  int32_t data_parallel = 1;
  int32_t width = 1;
  std::vector<PhazeStage> stages;
};

// Minimises max load * (ceil(B/d) + s - 1) + 4 (d-1) P1 / (d * bandwidth) over widths, d, number of
// stages s and downset chains. Memory of the stage at depth s from the end: (2 + optimizer) P + A +
// (s - 1) * stash.
// Errors: invalid problems; infeasible: nothing fits.
absl::StatusOr<PhazePlan> PlacePhaze(const PhazeProblem& problem);

// The expert placement that the paper compares with: stages of floor(layers / stages) layers in
// topological order, the rest in the last; without recomputation and memory check.
absl::StatusOr<PhazePlan> EvaluateFixedPlacement(const PhazeProblem& problem, int32_t stages,
                                                 int32_t width, int32_t data_parallel);

}  // namespace foretrace
