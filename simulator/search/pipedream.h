#pragma once
// PipeDream's partitioner: Narayanan et al., "PipeDream: generalized pipeline parallelism for DNN
// training" (SOSP 2019), section 3.1, with the conventions of its published optimizer.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/base/real_quantities.h"
#include "simulator/search/op_graph.h"

namespace foretrace {

// One profiled layer, per minibatch.
struct PipeDreamLayer {
  std::string name;
  RealSeconds compute;  // forward and backward
  RealBytes activation_bytes;
  RealBytes parameter_bytes;
};

struct PipeDreamProblem {
  OpGraph graph;
  std::vector<PipeDreamLayer> layers;
};

struct PipeDreamOptions {
  // Innermost first: `machines` workers of the level below behind links of `bandwidth`.
  struct Level {
    int32_t machines = 1;
    Bandwidth bandwidth = Bandwidth::BytesPerSecond(1.25e9);
  };
  std::vector<Level> levels;
  // No stage is replicated.
  bool straight_pipeline = false;
  // Communication between stages counts, divided by this; nullopt: it does not (their default).
  std::optional<double> activation_compression_ratio;
  size_t max_downsets = 50'000;
};

struct PipeDreamStage {
  std::vector<int32_t> nodes;
  RealSeconds compute;
  int32_t replicas = 1;  // of the outermost level
  RealSeconds time;
};

struct PipeDreamPlan {
  RealSeconds bottleneck;  // time per minibatch in steady state
  std::vector<PipeDreamStage> stages;
};

// Minimises the bottleneck. Stage time with m replicas is (C + 4 (m-1) W / (bw m)) / m; a transfer
// of x bytes into or out of a stage takes 2 x / (bw m). Splits may fall at every downset of the
// graph, of which the published program visits a part; at most all workers are used.
// Errors: no levels, too many downsets.
absl::StatusOr<PipeDreamPlan> PartitionPipeDream(const PipeDreamProblem& problem,
                                                 const PipeDreamOptions& options);

}  // namespace foretrace
