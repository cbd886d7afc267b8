#pragma once
// Phaze's device placement: Wang, Tarnawski, Phanishayee and Mahajan, "Integrated hardware
// architecture and device placement search" (ICML 2024), section 5, equations 17 and 18.

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/base/real_quantities.h"
#include "simulator/search/op_graph.h"

namespace foretrace {

// One layer at one tensor-parallel width: times of a microbatch, bytes of a device.
struct PhazeLayer {
  RealSeconds forward;
  RealSeconds backward;
  RealBytes parameter_bytes;
  RealBytes activation_bytes;
  // The layer is sliced at this width, so that a stage with it needs that many accelerators.
  bool sliced = false;
  // Kept besides (2 + optimizer_factor) times the parameters.
  RealBytes state_bytes;
};

struct PhazeEdge {
  int32_t from = 0;
  int32_t to = 0;
  RealBytes bytes;  // per microbatch
};

// A tensor-parallel width and a micro-batch: what every layer of a plan has in common.
struct PhazeOption {
  int32_t width = 1;
  int32_t micro_batch = 1;  // samples
  // No plan with it takes less; infinite: none fits in memory. 0: not known.
  RealSeconds bound;
  // Layers keep their inputs alone and run again one by one before their backward pass, which their
  // times and activations then say; unlike PhazeActivations, which is of whole stages.
  bool each_layer = false;
};

struct PhazeLayers {
  std::vector<PhazeLayer> layers;
  std::vector<PhazeEdge> edges;
  RealBytes reserved_bytes;  // of every accelerator's memory, for what is at work
};

// Whether activations stay until the backward pass; otherwise stages keep their inputs and repeat
// the forward pass, except the last.
enum class PhazeActivations : uint8_t { kStash, kRecompute };

struct PhazeProblem {
  int32_t layers = 0;
  // What a plan chooses among.
  std::vector<PhazeOption> options;
  std::vector<PhazeActivations> activations = {PhazeActivations::kStash};
  // The layers with an option, which may be dear; asked for where the option may be the best.
  std::function<absl::StatusOr<PhazeLayers>(const PhazeOption&)> layers_of;
  int32_t accelerators = 1;
  int32_t samples = 1;  // of a minibatch
  Bandwidth bandwidth;
  RealBytes memory;  // per accelerator
  // Bytes of optimizer state per byte of parameters: 0 SGD, 1 as the published program has Adam.
  double optimizer_factor = 0;
  // Replicas have equal numbers of micro-batches, and all accelerators are used.
  bool even = false;
  // Options whose bound is not below this are left out.
  RealSeconds bound_below = RealSeconds::Infinite();
  size_t max_downsets = 20'000;

  // B of the paper.
  int32_t MicroBatches(const PhazeOption& option) const {
    return (samples + option.micro_batch - 1) / option.micro_batch;
  }
};

struct PhazeStage {
  std::vector<int32_t> layers;
  int32_t accelerators = 1;
  RealSeconds load;
  RealBytes memory;
};

struct PhazePlan {
  RealSeconds batch;  // what a minibatch takes
  int32_t data_parallel = 1;
  int32_t width = 1;
  int32_t micro_batch = 1;
  bool recompute = false;  // by some stage
  std::vector<PhazeStage> stages;

  PhazeOption option() const { return {width, micro_batch}; }
};

// Minimises max load * (ceil(B/d) + s - 1) + 4 (d-1) P1 / (d * bandwidth) over options, activations
// kept or not, d, number of stages s and downset chains. Memory of the stage at depth s from the
// end: (2 + optimizer) P + state + A + (s - 1) * stash. Options are tried by their bounds, equal
// ones in their order. Without stages where `bound_below` left out an option and no other fits.
// Errors: invalid problems; infeasible: nothing fits; those of `layers_of`.
absl::StatusOr<PhazePlan> PlacePhaze(const PhazeProblem& problem);

// The expert placement that the paper compares with, at the best micro-batch: stages of
// floor(layers / stages) layers in topological order, the rest in the last; without recomputation
// and memory check.
absl::StatusOr<PhazePlan> EvaluateFixedPlacement(const PhazeProblem& problem, int32_t stages,
                                                 int32_t width, int32_t data_parallel);

}  // namespace foretrace
