#pragma once
// A header, software and models for tables of training jobs in tests.

#include <optional>
#include <string>
#include <vector>

#include "simulator/mapping/training_rows.h"

namespace foretrace {

inline constexpr const char* kHeader =
    "model,layers,hidden,heads,kv_heads,ffn,vocab,seq,gpus,gpu,gpus_per_node,tp,pp,dp,cp,vp,ep,"
    "micro_batch,grad_accum,global_batch,precision,sharding,recompute,framework,oom,step_s,table\n";

inline std::vector<SoftwareStack> Stacks() {
  StackRelease nemo, composer;
  nemo.fused_attention = nemo.sequence_parallel = nemo.overlap_tensor = nemo.overlap_gradients =
      true;
  nemo.packed_document = 200;
  nemo.chunked_tensor = true;
  nemo.gradient_bits = 16;
  composer.fused_attention = composer.overlap_gradients = true;
  composer.attention_slowdown = {{"GA100", 2}};
  return {{"nemo", {"nemo"}, {nemo}}, {"composer", {"composer"}, {composer}}};
}

inline absl::StatusOr<std::optional<TransformerConfig>> KnownModel(const std::string& name,
                                                                   bool /*own_sizes*/) {
  if (name != "known" && name != "alias" && name != "experts") return std::nullopt;
  TransformerConfig c;
  c.name = "known";
  c.family = TransformerFamily::kLlama;
  c.hidden = 4096;
  c.layers = 32;
  c.heads = 32;
  c.head_size = 64;
  c.vocabulary = 32000;
  c.sequence = 2048;
  if (name == "experts") {
    c.name = name;
    c.experts = 64;
    c.top_k = 2;
  }
  return c;
}

}  // namespace foretrace
