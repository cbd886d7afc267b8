#pragma once
// Exhaustive and local search over parallel mappings.

#include <cstdint>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/mapping/iteration_model.h"
#include "simulator/mapping/software_stack.h"
#include "simulator/search/evaluator.h"

namespace foretrace {

// Evaluates with the iteration model: every pass of the schedule, identical layers folded into one
// duration, replicas into one.
class IterationEvaluator : public Evaluator {
 public:
  IterationEvaluator(const TransformerConfig& model, ClusterParameters cluster, Bytes capacity)
      : model_(model, std::move(cluster)), capacity_(capacity) {}
  // The last stage's own work and the way there and back.
  SimTime LowerBound(const ParallelMapping& mapping) const override;
  Bytes Memory(const ParallelMapping& mapping) const override;
  bool Fits(const ParallelMapping& mapping) const override { return Memory(mapping) <= capacity_; }
  bool StageFits(const ParallelMapping& mapping, int32_t stage) const override;
  absl::StatusOr<Evaluation> Evaluate(const ParallelMapping& mapping) const override;

 private:
  IterationModel model_;
  Bytes capacity_;
};

// What the GEMMs of layers take their operands in: the model's type, or as the mapping's word of
// that name has it.
enum class GemmFormat : uint8_t { kModel, kFp8, kMxFp8, kNvFp4, kCount };
std::string_view Name(GemmFormat format);
void SetFormat(GemmFormat format, ParallelMapping& mapping);

struct MappingSpace {
  int64_t devices = 1;
  int32_t global_batch = 1;
  int32_t devices_per_node = 8;
  // Tensor parallelism beyond a node is tried too, after that within one.
  int32_t max_tensor = 64;
  int32_t max_micro_batch = 64;
  int32_t max_chunks = 8;
  // Also selective and full, and MakeFit's of what does not fit; else none.
  bool recompute = true;
  bool inputs_on_host = false;  // kept inputs may be there, whose rate is known
  bool sequence_parallel = true;
  int32_t max_zero = 1;  // ZeRO stages up to this
  int32_t max_context = 1;
  bool overlap_gradients = false;  // also with reductions overlapped
  std::vector<ScheduleKind> schedules = {ScheduleKind::k1F1B};
  // Of models whose experts are divided: how tokens go to them (all but the first of whole experts
  // alone), and whether also beside another micro-batch's kernels.
  std::vector<ExpertDispatch> dispatches = {ExpertDispatch::kAllToAll};
  bool overlap_experts = false;
  std::vector<GemmFormat> formats = {GemmFormat::kModel};
  // What it does by itself every mapping does (SetChoices); at least what it divides is divided.
  // Null: none is assumed.
  const StackRelease* software = nullptr;
};

// The ZeRO stages of a mapping with these degrees.
int32_t LeastZero(const MappingSpace& space, const ParallelMapping& mapping);
int32_t MostZero(const MappingSpace& space, const ParallelMapping& mapping);
// Makes the choices that the space's software makes by itself.
void Conform(const TransformerConfig& model, const MappingSpace& space, ParallelMapping& mapping);

// How layers that chunks do not divide are divided all the same: with embedding and output layer
// counted, or, without interleaving, one more on the first stages.
void DivideLayers(const TransformerConfig& model, ParallelMapping& mapping);

// All mappings whose degrees divide (CheckMapping), tensor parallelism within a node first; models
// with experts at every expert parallelism that divides. In a fixed order without repeats.
std::vector<ParallelMapping> EnumerateMappings(const TransformerConfig& model,
                                               const MappingSpace& space);

// Of a mapping that can be (CheckMapping) and does not fit, the same with another recomputation
// with which it does; nullopt: there is none. Of one that recomputes nothing, as few layers whole
// as fit, as the space's software chooses them: the first ones of each chunk
// (ParallelMapping::recomputed_layers), or every so many'th. Of one that recomputes all layers,
// without software, the first that fits of one input for as few layers as do, of inputs divided
// over tensor-parallel ranks, and of inputs on the host.
std::optional<ParallelMapping> MakeFit(const Evaluator& evaluator, const TransformerConfig& model,
                                       const MappingSpace& space, const ParallelMapping& mapping);

// Of a mapping that can be and does not fit, whose stages have one chunk each, the same with fewer
// layers on the stages that are too full, so that it does, and no more than needed on the others,
// of which the last, with the output layer, has fewer if any; nullopt: there is none.
std::optional<ParallelMapping> MoveLayersToFit(const Evaluator& evaluator,
                                               const TransformerConfig& model,
                                               const ParallelMapping& mapping);

struct RankedMapping {
  ParallelMapping mapping;
  Evaluation evaluation;
};

// Of a pipeline whose stages have one chunk each the same with layers moved, one at a time from its
// first or last stage, which have embedding and output layer too, while that makes it faster;
// nullopt: nothing does, or stages are not such. It fits. Once `stop` was asked for, as far as
// moves were tried.
std::optional<RankedMapping> ShiftLayersToBalance(const Evaluator& evaluator,
                                                  const TransformerConfig& model,
                                                  const RankedMapping& ranked,
                                                  const std::stop_token& stop = {});

struct SearchResult {
  std::vector<RankedMapping> ranked;  // best first; ties by memory, then by enumeration
  std::vector<size_t> pareto;         // of `ranked`: faster than all that need as little memory
  int64_t candidates = 0;
  int64_t evaluated = 0;
  int64_t infeasible = 0;
  int64_t pruned = 0;  // cannot be among the first nor on the front
  bool interrupted = false;
};

struct SearchControl {
  size_t keep = 10;  // of the ranking, exactly as a full search would have them
  // Called with candidates whose bounds are known and in all, before any is evaluated: of millions
  // that takes minutes.
  std::function<void(int64_t done, int64_t total)> bounding;
  // Called between batches with candidates done and in all.
  std::function<void(int64_t done, int64_t total)> progress;
  // Asked between batches; true ends the search with what there is.
  std::function<bool()> interrupted;
  // Of a candidate that is evaluated and does not fit, others to try, of no lower bound; null:
  // none are. What would be tried instead of candidates that are pruned is not.
  std::function<std::vector<ParallelMapping>(const ParallelMapping&)> instead;
};

// Evaluates all candidates in batches, the most promising first, except those whose lower bound
// exceeds the `keep` best times and that some evaluated mapping beats in time and memory. What is
// evaluated does not depend on who evaluates.
// Errors: infeasible when no candidate is, with the reason for the one that needs least memory.
absl::StatusOr<SearchResult> SearchExhaustively(const Evaluator& evaluator,
                                                const EvaluateBatch& evaluate,
                                                const std::vector<ParallelMapping>& candidates,
                                                const SearchControl& control);

// Simulated annealing on the mapping from `start`: doubles or halves degrees against each other,
// micro-batch and chunks, and flips the other choices, one or two at a time. Four cycles, each from
// the best so far, in which the temperature falls from 10 % of an iteration to 0.1 %. Deterministic
// for a seed. Ends with the best so far once `stop` is asked for.
absl::StatusOr<RankedMapping> SearchLocally(const Evaluator& evaluator,
                                            const TransformerConfig& model,
                                            const MappingSpace& space, const ParallelMapping& start,
                                            int32_t steps, uint64_t seed,
                                            std::stop_token stop = {});

}  // namespace foretrace
