#pragma once
// What stages of a placement (phaze.h) take and keep: what its solver and the evaluation of given
// placements share.

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "simulator/search/op_graph.h"
#include "simulator/search/phaze.h"

namespace foretrace {

absl::Status CheckProblem(const PhazeProblem& problem);

// What a layer keeps on a device, without what other micro-batches in flight have it keep.
RealBytes PhazeKept(const PhazeProblem& p, const PhazeLayer& layer);

// Bare numbers of seconds and bytes, as all that the solver's inner loops see.
struct PhazeLoad {
  double last_s = 0;  // as the last stage, which never recomputes
  double other_s = 0;
  int32_t max_depth = 0;  // deepest position from the end at which it fits in memory
  int32_t accelerators = 1;
  double base_bytes = 0, stash_bytes = 0, parameter_bytes = 0;

  double At(int32_t depth) const { return depth == 1 ? last_s : other_s; }
  RealBytes MemoryAt(int32_t depth) const {
    return RealBytes(base_bytes + (depth - 1) * stash_bytes);
  }
};

// What a problem comes to with one option and one rule for activations.
struct PhazeChoice {
  const PhazeProblem& problem;
  const PhazeLayers& model;
  PhazeOption option;
  bool recompute = false;
  int32_t microbatches = 1;
};

// Of the stage that holds certain layers.
class PhazeStageLoads {
 public:
  // Looks at the choice later, which must outlive it.
  PhazeStageLoads(const PhazeChoice& choice, const OpGraph& graph);

  PhazeLoad Of(std::vector<int32_t> nodes) const;

 private:
  const PhazeProblem& p_;
  const PhazeChoice& c_;
  std::vector<int32_t> position_;                                  // in topological order, by layer
  std::vector<std::vector<std::pair<int32_t, double>>> in_, out_;  // layers and bytes, by layer
};

// The layers' graph. Errors: a description of other layers than the problem has; cycles.
absl::StatusOr<OpGraph> PhazeGraph(const PhazeProblem& problem, const PhazeOption& option,
                                   const PhazeLayers& model);

// Seconds that replicas take to reduce the first stage's gradients.
double PhazeSyncTime(const PhazeProblem& problem, double first_stage_bytes, int32_t data_parallel);
// Times the slowest stage's load that `data_parallel` replicas of so many stages take.
double PhazeFactor(const PhazeChoice& choice, int32_t data_parallel, int32_t stages);

}  // namespace foretrace
