#pragma once
// What runs again of a layer whose parts are recomputed: lightly (Recompute::kLight) or by modules
// (kModules).

#include <string>

#include "simulator/graph/differentiate.h"
#include "simulator/mapping/mapped_layer.h"

namespace foretrace {

// Of a layer's graph, for what the mapping trains; without such recomputation nothing runs again
// and all is kept.
//
// Modules are those of Megatron Core: core_attn (transformer/attention.py), mlp of layers without
// experts, with the norm before (transformer_layer.py, _run_mlp), moe with router, exchanges and
// shared experts, and shared_experts (moe/moe_layer.py) are kept from their inputs and run again
// whole; of layernorm (those before latents and routers, transformer_layer.py), moe_act
// (moe/experts.py) and mla_up_proj (norms of latents, GEMMs up, rotary embedding;
// multi_latent_attention.py) the outputs are dropped and made again.
PartialRecomputation PartsAgain(const OperatorGraph& graph, const ParallelMapping& mapping);

// Whether a layer's GEMMs have what KeptOfBlock and others take for trained or adapted weights.
bool NeedsInput(const GraphOp& op, const ParallelMapping& mapping);

// Of the modules those that no layer of the model has, or that are part of another one of them.
RecomputeModules IdleModules(const TransformerConfig& model, RecomputeModules modules);

// Infeasible where a module is one of these, or is not what Megatron Core can have.
absl::Status CheckModules(const TransformerConfig& model, const ParallelMapping& mapping);

}  // namespace foretrace
