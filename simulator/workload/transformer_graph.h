#pragma once
// Transformers as operator graphs: one repeated block, what comes before it and what after.

#include "simulator/graph/operator_graph.h"
#include "simulator/workload/transformer.h"

namespace foretrace {

// Axes whose sizes a mapping gives: samples of a micro-batch; tokens of a sample on one device and
// the keys that they attend to; tokens of the residual stream, which sequence parallelism divides;
// visits of tokens to experts, and those of the stream's share.
struct TransformerAxes {
  AxisId batch, queries, keys, stream, visits, stream_visits;
  // What tensor parallelism divides: heads, feed-forward widths (one and, where gated, both
  // halves; of chosen and of shared experts), vocabulary. Expert parallelism: experts.
  AxisId heads, kv_heads, ffn, up, shared, shared_up, vocabulary, experts;
};

struct TransformerGraph {
  OperatorGraph graph;
  TransformerAxes axes;
};

// `config` has its defaults filled in, and one stack of layers.
TransformerGraph MakeTransformerGraph(const TransformerConfig& config);

// How axes are divided.
struct TransformerShares {
  int64_t tensor = 1, context = 1, expert = 1, micro_batch = 1;
  bool sequence_parallel = false;
  int64_t expert_tensor = 0;  // 1: experts are not divided by `tensor`; needs sequence_parallel
};
// A device's local sizes. Degrees divide; fewer key heads than tensor-parallel ranks are
// replicated.
Binding BindTransformer(const TransformerGraph& model, const TransformerConfig& config,
                        const TransformerShares& shares);

}  // namespace foretrace
