#pragma once
// Transformers as operator graphs: one repeated block, what comes before it and what after.

#include "simulator/graph/shard.h"
#include "simulator/workload/transformer.h"

namespace foretrace {

// Axes whose sizes a mapping gives: samples of a micro-batch; tokens of a sample on one device and
// the keys that they attend to; tokens of the residual stream, which sequence parallelism divides;
// tokens routed to experts (one for each of a token's experts), and those of the stream's share.
struct TransformerAxes {
  AxisId batch, queries, keys, stream, routed, stream_routed;
  // What tensor parallelism divides: heads, feed-forward widths (one and, where gated, both
  // halves; of chosen and of shared experts), vocabulary. Expert parallelism: experts.
  AxisId heads, kv_heads, ffn, up, shared, shared_up, vocabulary, experts;
  AxisId state_heads, state_groups;  // of state-space mixers
};

struct TransformerGraph {
  OperatorGraph graph;
  TransformerAxes axes;
  TensorId memory = -1;  // of decoders: what the encoder passes on, an input
  TensorId routed = -1;  // of mixtures of experts: what each token gives each expert
};

// Which layers, and what comes before and after them. Of T5 two: the encoder ends with a norm; the
// decoder attends to what that passes on as well, its embedding reads the encoder's table, and the
// output layer follows it.
enum class TransformerStack : uint8_t { kOnly, kEncoder, kDecoder };

// `config` has its defaults filled in.
TransformerGraph MakeTransformerGraph(const TransformerConfig& config,
                                      TransformerStack stack = TransformerStack::kOnly);

// The GEMM that joins a layer's result with the next token's embedding, for each token that is
// predicted beyond the next (TransformerConfig::further_tokens), of `tensor` devices on one.
LinearOp FurtherTokenJoin(const TransformerConfig& config, int64_t rows, int64_t tensor);

// How axes are divided.
struct TransformerShares {
  int64_t tensor = 1, context = 1, expert = 1, micro_batch = 1;
  bool sequence_parallel = false;
  int64_t expert_tensor = 0;  // 1: experts are not divided by `tensor`; needs sequence_parallel
  SequenceForm sequence = SequenceForm::kGather;  // of `context`
  bool balance_loss = false;  // a loss takes what all tokens of a sequence give each expert
  // Routed tokens that arrive at a device's experts, and that its own tokens make, in mean ones.
  double arriving = 1, leaving = 1;
};
// A device's local sizes. Degrees divide; fewer key heads than tensor-parallel ranks are
// replicated.
Binding BindTransformer(const TransformerGraph& model, const TransformerConfig& config,
                        const TransformerShares& shares);
// The same division without degrees: which groups of more than one device divide which axes.
Division DivisionOf(const TransformerGraph& model, const TransformerConfig& config,
                    const TransformerShares& shares);

}  // namespace foretrace
