#pragma once
// Exhaustive and local search over parallel mappings.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/mapping/iteration_model.h"
#include "simulator/search/evaluator.h"

namespace foretrace {

// Evaluates with the iteration model: every pass of the schedule, identical layers folded into one
// duration, replicas into one.
class IterationEvaluator : public Evaluator {
 public:
  IterationEvaluator(TransformerConfig model, ClusterParameters cluster, Bytes capacity)
      : model_(std::move(model)), cluster_(cluster), capacity_(capacity) {}
  // The last stage's own work and the way there and back.
  SimTime LowerBound(const ParallelMapping& mapping) const override;
  absl::StatusOr<Evaluation> Evaluate(const ParallelMapping& mapping) const override;

 private:
  TransformerConfig model_;
  ClusterParameters cluster_;
  Bytes capacity_;
};

struct MappingSpace {
  int64_t devices = 1;
  int32_t global_batch = 1;
  int32_t devices_per_node = 8;
  // Tensor parallelism beyond a node is tried too, after that within one.
  int32_t max_tensor = 64;
  int32_t max_micro_batch = 64;
  int32_t max_chunks = 8;
  bool recompute = true;          // also selective and full, else none
  bool sequence_parallel = true;
  bool distributed_optimizer = true;
};

// All mappings whose degrees divide (CheckMapping), tensor parallelism within a node first. In a
// fixed order without repeats.
std::vector<ParallelMapping> EnumerateMappings(const TransformerConfig& model,
                                               const MappingSpace& space);

struct RankedMapping {
  ParallelMapping mapping;
  Evaluation evaluation;
};

struct SearchResult {
  std::vector<RankedMapping> ranked;  // best first; ties by the order of enumeration
  int64_t evaluated = 0;
  int64_t infeasible = 0;
  int64_t pruned = 0;     // by the lower bound
  std::string nearest;    // why the last infeasible mapping was, when nothing is feasible
};

// Evaluates every candidate except those whose lower bound already exceeds the `keep` best times, so
// that the first `keep` of the ranking are those of the full search.
// Errors: infeasible when no candidate is.
absl::StatusOr<SearchResult> SearchExhaustively(const Evaluator& evaluator,
                                                const std::vector<ParallelMapping>& candidates,
                                                size_t keep);

// Simulated annealing on the mapping from `start`: doubles or halves degrees against each other,
// micro-batch and chunks, and flips the other choices, one or two at a time. Four cycles, each from
// the best so far, in which the temperature falls from 10 % of an iteration to 0.1 %. Deterministic
// for a seed.
absl::StatusOr<RankedMapping> SearchLocally(const Evaluator& evaluator,
                                            const TransformerConfig& model,
                                            const MappingSpace& space, const ParallelMapping& start,
                                            int32_t steps, uint64_t seed);

}  // namespace foretrace
