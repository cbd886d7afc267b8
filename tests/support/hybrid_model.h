#pragma once
// Small models each of whose layers is a state-space mixer, attention, or feed-forward.

#include <string>

#include "simulator/workload/transformer.h"

namespace foretrace {

// Hidden size 256; 16 heads of 32 elements with states of 32, in 4 groups; chunks of 16 of 64
// tokens; attention of 8 heads of queries and 2 of keys, of 32; feed-forward of 1,024.
inline TransformerConfig HybridModel(const std::string& pattern = "M-M*-M*-", int64_t layers = 8) {
  TransformerConfig c;
  c.family = TransformerFamily::kLlama;
  c.hidden = 256;
  c.layers = layers;
  c.heads = 8;
  c.kv_heads = 2;
  c.head_size = 32;
  c.ffn = 1024;
  c.vocabulary = 1000;
  c.sequence = 64;
  c.gated = c.rotary = false;
  c.fused_attention = true;
  c.dtype = DType::kBFloat16;
  c.pattern = pattern;
  c.state_heads = 16;
  c.state_head_size = c.state_size = 32;
  c.state_groups = 4;
  c.state_chunk = 16;
  return WithDefaults(c);
}

// With gated delta nets: 4 heads of keys of 32 elements, 16 heads of values of 32; attention with a
// gate.
inline TransformerConfig DeltaModel(const std::string& pattern = "G-G*-G*-") {
  TransformerConfig c = HybridModel(pattern, static_cast<int64_t>(pattern.size()));
  c.attention_gate = true;
  return c;
}

// Three layers of 8 experts, of which a token has 2, and a dense one of 2,048 among them.
inline TransformerConfig HybridExperts() {
  TransformerConfig c = HybridModel("MEM*-EME", 8);
  c.experts = 8;
  c.top_k = 2;
  c.dense_ffn = 2048;
  return c;
}

}  // namespace foretrace
