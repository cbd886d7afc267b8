#pragma once
// The state-space mixer of a layer (Mamba-2), as Megatron Core has it (ssm/mamba_mixer.py).

#include "simulator/workload/transformer_graph.h"

namespace foretrace {

// Adds it to `model`, whose axes are there: a GEMM to gate, input, what writes and reads states,
// and steps; the scan; a norm of each group's heads; the GEMM back. Returns what that gives for the
// tokens of the stream. `hidden`: the axis of the residual stream; `normalised`: what is read.
TensorId AddMixer(const TransformerConfig& config, AxisId hidden, TensorId normalised,
                  TransformerGraph& model);

}  // namespace foretrace
