#include "simulator/workload/published_parts.h"

#include <string>
#include <vector>

namespace foretrace {

void ReadSizes(PublishedKeys& k, TransformerConfig& c, const ClassHas& has) {
  c.hidden = k.Size({"hidden_size", "n_embd", "n_embed", "d_model"});
  const PublishedKeys::Names layers = {"num_hidden_layers", "n_layer", "n_layers", "num_layers"};
  c.layers = has.lists_layers ? k.Size(layers, 0) : k.Size(layers);
  c.heads = k.Size({"num_attention_heads", "n_head", "n_heads", "num_heads"});
  c.kv_heads = k.Size({"num_key_value_heads"}, has.kv_heads);
  c.head_size = k.Size({"head_dim", "attention_head_dim", "kv_channels"}, has.head_size);
  c.vocabulary = k.Size({"vocab_size", "padded_vocab_size"});
  c.positions = k.Size({"max_position_embeddings", "n_positions", "max_seq_len", "seq_length"}, 0);
  c.tied = k.Flag({"tie_word_embeddings"}, has.tied);
}

void ReadLlama(PublishedKeys& k, TransformerConfig& c, const ClassHas& has) {
  c.family = TransformerFamily::kLlama;
  ReadSizes(k, c, has);
  c.ffn = k.Size({"intermediate_size", "ffn_hidden_size"});
  const bool attention = k.Flag({"attention_bias", "qkv_bias", "add_qkv_bias"}, has.qkv_biases);
  const bool feed_forward = k.Flag({"mlp_bias"}, false);
  if (attention && feed_forward) {
    c.biases = true;
  } else if (attention) {
    c.qkv_biases = true;
  } else if (feed_forward) {
    k.Note("biases of feed-forward layers alone are left out (mlp_bias)");
  }
}

void ReadWindows(PublishedKeys& k, TransformerConfig& c, int64_t window, int64_t every) {
  c.window = k.Size({"sliding_window"}, k.IsNull("sliding_window") ? 0 : window);
  every = k.Size({"sliding_window_pattern"}, every);
  const std::vector<std::string> kinds = k.Words("layer_types");
  if (!kinds.empty()) {
    std::vector<size_t> whole;
    for (size_t i = 0; i < kinds.size(); ++i) {
      if (kinds[i] == "full_attention") whole.push_back(i);
      const bool known = kinds[i] == "full_attention" || kinds[i] == "sliding_attention";
      if (!known) k.Refuse("'layer_types' has '" + kinds[i] + "', which is not modelled");
    }
    every = whole.empty() ? 0 : static_cast<int64_t>(whole.front()) + 1;
    bool regular = static_cast<int64_t>(kinds.size()) == c.layers;
    for (size_t i = 0; regular && i < kinds.size(); ++i) {
      const bool expected = every > 0 && (i + 1) % static_cast<size_t>(every) == 0;
      regular = expected == (kinds[i] == "full_attention");
    }
    if (!regular)
      k.Refuse("'layer_types' is not of all layers, every n-th of which attends to all");
  }
  if (every == 1 || (c.positions > 0 && c.window >= c.positions)) c.window = 0;
  c.global_every = c.window > 0 && every <= c.layers ? every : 0;
}

void ReadExperts(PublishedKeys& k, TransformerConfig& c) {
  c.experts = k.Size({"num_local_experts", "num_experts", "n_routed_experts"});
  c.top_k = k.Size({"num_experts_per_tok", "experts_per_token"});
}

void ReadDeepSeekExperts(PublishedKeys& k, TransformerConfig& c) {
  ReadExperts(k, c);
  c.dense_ffn = c.ffn;
  c.ffn = k.Size({"moe_intermediate_size"});
  c.shared_ffn = c.ffn * k.Size({"n_shared_experts"}, 0);
  c.dense_first = k.Size({"first_k_dense_replace"}, 0);
  if (c.dense_first == 0) c.dense_ffn = 0;
  if (k.Size({"moe_layer_freq"}, 1) != 1) k.Refuse("'moe_layer_freq' must be 1");
  const int64_t groups = k.Size({"n_group"}, 0), chosen = k.Size({"topk_group"}, 0);
  if (groups > 1 && chosen > 0) {
    c.expert_groups = groups;
    c.chosen_groups = chosen;
  }
  c.further_tokens = k.Size({"num_nextn_predict_layers"}, 0);
}

void ReadQwenExperts(PublishedKeys& k, TransformerConfig& c) {
  ReadExperts(k, c);
  c.dense_ffn = c.ffn;
  c.ffn = k.Size({"moe_intermediate_size"});
  c.shared_ffn = k.Size({"shared_expert_intermediate_size"}, 0);
  c.experts_every = k.Size({"decoder_sparse_step"}, 1);
  const std::vector<int64_t> dense = k.Numbers("mlp_only_layers");
  c.dense_first = static_cast<int64_t>(dense.size());
  for (size_t i = 0; i < dense.size(); ++i) {
    if (dense[i] != static_cast<int64_t>(i)) {
      k.Refuse("'mlp_only_layers' must be the first ones");
    }
  }
  if (c.dense_first == 0 && c.experts_every == 1) c.dense_ffn = 0;
}

}  // namespace foretrace
