#pragma once
// A model as a layer graph: what each operator computes, reads, keeps and passes on. Independent of
// any mapping: quantities are per sample and unsharded, with notes on how they may be divided.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "simulator/base/dtype.h"
#include "simulator/base/units.h"
#include "simulator/cost/operator/operator.h"

namespace foretrace {

enum class OperatorKind : uint8_t {
  kLinear,     // GEMMs with weights
  kAttention,  // scores, softmax and weighted sum of values; no weights
  kNorm,
  kElementwise,
  kEmbedding,     // one row per token
  kEmbeddingBag,  // several rows per sample, from a sharded table
  kRouter,
  kExperts,  // feed-forward layers of which each token is routed to a few
  kConcat,
  kLoss,
  kGeneric,
  kCount,
};
std::string_view Name(OperatorKind kind);

// One operator. "Per sample" is one sequence of a language model, one row of a recommendation
// model.
struct Operator {
  std::string name;
  OperatorKind kind = OperatorKind::kGeneric;
  int32_t block = -1;  // that it belongs to: a layer; -1: before or after all of them

  int64_t parameters = 0;         // trainable elements
  int64_t active_parameters = 0;  // of these, those that one sample's token uses (experts: top-k)
  // Tensor parallelism of every width that divides this divides its work, parameters and results
  // over the group; 0: of any width. 1: each device of a group does all of it.
  int64_t tensor_ways = 1;
  bool DividedBy(int32_t width) const { return width == 1 || tensor_ways % width == 0; }
  // Parameters are divided by the expert-parallel degree.
  bool expert_parallel = false;

  Flop forward_flop;  // per sample; a multiply-add counts as two
  Flop backward_flop;
  // Traffic to device memory per sample, weights not included.
  Bytes forward_bytes;
  Bytes backward_bytes;
  // Kept from forward to backward, per sample, in three parts after Korthikanti et al. (2022),
  // section 4: divided by tensor parallelism; divided by it only under sequence parallelism; and,
  // of the first part, what selective recomputation drops (the attention matrix).
  Bytes stash_tensor;
  Bytes stash_sequence;
  Bytes stash_selective;
  // Passed on to each successor, per sample.
  Bytes output_bytes;
  // Where tensor parallelism divides it: its output is summed over the group (a divided region
  // ends), or the gradient of its input is (one begins).
  bool reduces_output = false;
  bool reduces_gradient = false;
  // What it computes forward, at the sizes of `Workload::call_samples`; empty: not known.
  std::vector<OperatorCall> calls;
  // Of a point-wise call: "multiply", "gelu" and so on, as patterns of backends spell it.
  std::string function;
};

struct OperatorEdge {
  int32_t from = 0;
  int32_t to = 0;
  Bytes bytes;  // per sample
};

struct Workload {
  std::string name;
  std::vector<Operator> operators;  // in a topological order
  std::vector<OperatorEdge> edges;
  DType dtype = DType::kFloat16;
  int64_t sequence_length = 1;  // tokens per sample; 1 for models without tokens
  int64_t hidden = 0;           // width of the block boundary; 0 unknown
  int32_t blocks = 0;
  int64_t call_samples = 1;  // that the operators' calls are of

  int64_t ParameterCount() const;
  int64_t ActiveParameterCount() const;
  // Forward plus backward of one sample, without recomputation ("model FLOP").
  Flop ModelFlop() const;
  Flop ForwardFlop() const;

  // Edges inside the range, forward in the list (so acyclic), no duplicates; no negative numbers.
  absl::Status Validate() const;
};

}  // namespace foretrace
