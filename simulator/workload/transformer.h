#pragma once
// Transformer language models as layer graphs.

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "simulator/workload/workload.h"

namespace foretrace {

enum class TransformerFamily : uint8_t { kGpt, kLlama, kBert, kT5, kCount };
std::string_view Name(TransformerFamily family);

// Sizes are in elements. Families fix what the sizes leave open: GPT has biases, learned positions
// and a tied output layer; Llama has RMS norm, gated feed-forward layers, no biases and its own
// output layer; BERT is GPT with segment embeddings, post-norm and a pooler; T5 has an encoder and
// a decoder with cross attention, relative position biases, no biases otherwise.
struct TransformerConfig {
  std::string name = "transformer";
  TransformerFamily family = TransformerFamily::kGpt;
  int64_t hidden = 0;
  int64_t layers = 0;          // T5: of the encoder
  int64_t decoder_layers = 0;  // T5 only
  int64_t heads = 0;
  int64_t kv_heads = 0;   // 0: as many as heads; fewer: grouped-query attention
  int64_t head_size = 0;  // 0: hidden / heads
  int64_t ffn = 0;        // 0: 4 * hidden
  int64_t vocabulary = 0;
  int64_t sequence = 0;   // tokens per sample
  int64_t positions = 0;  // learned positions; 0: as many as sequence where the family learns them
  int64_t experts = 0;    // 0: dense; else every layer's feed-forward is a mixture
  int64_t top_k = 0;
  DType dtype = DType::kFloat16;
  // Attention never writes its score matrix to device memory (FlashAttention).
  bool fused_attention = false;
  bool dropout = true;  // where the family has it; Llama never
};

// Sizes that are zero because they follow from others, filled in.
TransformerConfig WithDefaults(TransformerConfig config);

// Errors: sizes that are missing, negative, too large, or do not divide.
absl::StatusOr<Workload> BuildTransformer(const TransformerConfig& config);

}  // namespace foretrace
