#pragma once
// The state-space mixer of a layer (Mamba-2), as Megatron Core has it (ssm/mamba_mixer.py).

#include "simulator/workload/transformer_graph.h"

namespace foretrace {

// Adds it to `model`, whose axes are there: a GEMM to gate, input, what writes and reads states,
// and steps; the scan; a norm of each group's heads; the GEMM back. Returns what that gives for the
// tokens of the stream. `hidden`: the axis of the residual stream; `normalised`: what is read.
TensorId AddMixer(const TransformerConfig& config, AxisId hidden, TensorId normalised,
                  TransformerGraph& model);

// A gated delta net instead, as Megatron Core has it (ssm/gated_delta_net.py): a GEMM to queries,
// keys, values, gate, step sizes and decays; the delta rule; a norm of each head of values, times
// the gate; the GEMM back.
TensorId AddDeltaMixer(const TransformerConfig& config, AxisId hidden, TensorId normalised,
                       TransformerGraph& model);

}  // namespace foretrace
