#pragma once
// Attention as operators of a transformer's graph: from normalised tokens to what is added to them.

#include "simulator/workload/transformer_graph.h"

namespace foretrace {

// Axes that all layers share: of the residual stream, of a head's queries and keys, of its values.
struct AttentionAxes {
  AxisId hidden, depth, value_depth;
};

// Of the tokens with themselves, over latents where the model has them.
TensorId AddAttention(const TransformerConfig& config, const AttentionAxes& axes, bool causal,
                      TensorId normalised, TransformerGraph& model);
// Queries of the decoder's tokens `x`, after a norm of their own; keys and values of what the
// encoder passes on, which becomes the graph's `memory`.
TensorId AddCrossAttention(const TransformerConfig& config, const AttentionAxes& axes, TensorId x,
                           TransformerGraph& model);

}  // namespace foretrace
