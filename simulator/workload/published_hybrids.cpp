#include "simulator/workload/published_hybrids.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "simulator/base/utf8.h"
#include "simulator/workload/layer_pattern.h"
#include "simulator/workload/published_parts.h"

namespace foretrace {
namespace {

// Of a file that lists none; more are refused as sizes (CheckTransformer).
constexpr int64_t kMostLayers = 100'000;

// Falcon H1's and Granite's keys, which are Bamba's.
void ReadStates(PublishedKeys& k, TransformerConfig& c) {
  c.state_heads = k.Size({"mamba_n_heads"});
  c.state_head_size = k.Size({"mamba_d_head"});
  c.state_size = k.Size({"mamba_d_state"});
  c.state_groups = k.Size({"mamba_n_groups"}, 1);
  c.state_convolution = k.Size({"mamba_d_conv"}, c.state_convolution);
  c.state_chunk = k.Size({"mamba_chunk_size"}, 256);
}

// The letters of what mixes tokens, each with what is behind it.
void SetPattern(const std::string& mixers, char behind, TransformerConfig& c) {
  for (const char mixer : mixers) c.pattern += {mixer, behind};
  c.layers = static_cast<int64_t>(c.pattern.size());
}

// A layer is one of two kinds, as a list says.
std::string Mixers(PublishedKeys& k, const TransformerConfig& c, std::string_view state,
                   char letter, std::string_view attention) {
  const std::vector<std::string> kinds = k.Words("layer_types");
  std::string mixers;
  for (const std::string& kind : kinds) {
    if (kind != state && kind != attention) {
      k.Refuse("'layer_types' has '" + kind + "', which is not modelled");
    }
    mixers += kind == attention ? '*' : letter;
  }
  if (!kinds.empty() && static_cast<int64_t>(kinds.size()) != c.layers) {
    k.Refuse("'layer_types' is not of all layers");
  }
  return mixers;
}

// Of layers that a word says, or a list (transformers, models/nemotron_h: the first until 5.0, with
// other names of mixers and attention in the second from 5.17 on).
std::string Letters(PublishedKeys& k, const char* pattern, const char* list) {
  static constexpr std::pair<std::string_view, char> kNames[] = {
      {"mamba", 'M'},     {"linear_attention", 'M'},
      {"attention", '*'}, {"full_attention", '*'},
      {"mlp", '-'},       {"moe", 'E'}};
  std::string letters = k.Word({pattern}, "");
  const std::vector<std::string> kinds = k.Words(list);
  if (!letters.empty()) return letters;
  for (const std::string& kind : kinds) {
    const auto* known = std::ranges::find(kNames, kind, &std::pair<std::string_view, char>::first);
    if (known == std::end(kNames)) {
      k.Refuse(fmt::format("'{}' has '{}', which is not modelled", list, OneLine(kind)));
      return "";
    }
    letters += known->second;
  }
  return letters;
}

}  // namespace

void ReadNemotronH(PublishedKeys& k, TransformerConfig& c) {
  ReadLlama(k, c, {.lists_layers = true});
  c.gated = c.rotary = false;
  c.pattern = Letters(k, "hybrid_override_pattern", "layers_block_type");
  if (c.pattern.empty()) k.Refuse("lacks 'hybrid_override_pattern' or 'layers_block_type'");
  c.further_tokens = k.Size({"num_nextn_predict_layers"}, 0);
  c.further_pattern = Letters(k, "mtp_hybrid_override_pattern", "mtp_layers_block_type");
  if (c.further_tokens > 0 && c.further_pattern.empty()) {
    k.Note(
        "layers of modules for further tokens are not said (mtp_hybrid_override_pattern), and "
        "left out");
  }
  if (c.further_tokens == 0 || c.further_pattern.empty()) WithoutFurtherTokens(c);
  c.state_heads = k.Size({"mamba_num_heads"});
  c.state_head_size = k.Size({"mamba_head_dim"});
  c.state_size = k.Size({"ssm_state_size"});
  c.state_groups = k.Size({"n_groups", "mamba_n_groups"});
  c.state_convolution = k.Size({"conv_kernel"}, c.state_convolution);
  c.state_chunk = k.Size({"chunk_size"}, c.state_chunk);
  if (k.Word({"mamba_ssm_cache_dtype"}, "") == "float32") c.state_bits = 32;
  if (c.pattern.find('E') == std::string::npos) return;
  ReadExperts(k, c);
  c.ffn = k.Size({"moe_intermediate_size"});
  c.expert_latent = k.Size({"moe_latent_size"}, 0);
  c.shared_ffn =
      k.Size({"moe_shared_expert_intermediate_size"}, 0) * k.Size({"n_shared_experts"}, 1);
}

void ReadFalconH1(PublishedKeys& k, TransformerConfig& c) {
  ReadLlama(k, c, {});
  ReadStates(k, c);
  c.state_norm = k.Flag({"mamba_rms_norm"}, false);
  const int64_t width = c.state_heads * c.state_head_size;
  if (k.Size({"mamba_d_ssm"}, width) != width) {
    k.Refuse("'mamba_d_ssm' must be mamba_n_heads times mamba_d_head");
  }
  if (c.layers > 0 && c.layers <= kMostLayers) {
    SetPattern(std::string(static_cast<size_t>(c.layers), 'P'), '-', c);
  }
}

void ReadGraniteHybrid(PublishedKeys& k, TransformerConfig& c) {
  ReadLlama(k, c, {});
  ReadStates(k, c);
  c.rotary = k.Word({"position_embedding_type"}, "nope") == "rope";
  const int64_t shared = k.Size({"shared_intermediate_size"});
  const bool experts = k.Size({"num_local_experts"}, 0) > 0;
  if (experts) {
    ReadExperts(k, c);
    c.shared_ffn = shared;
  } else {
    c.ffn = shared;
  }
  const std::string mixers = Mixers(k, c, "mamba", 'M', "attention");
  if (mixers.empty()) k.Refuse("lacks 'layer_types'");
  SetPattern(mixers, experts ? 'E' : '-', c);
}

void ReadQwen3Next(PublishedKeys& k, TransformerConfig& c) {
  ReadLlama(k, c, {.head_size = 256});
  c.qk_norm = c.attention_gate = true;
  c.state_heads = k.Size({"linear_num_value_heads"});
  c.state_groups = k.Size({"linear_num_key_heads"});
  c.state_head_size = k.Size({"linear_value_head_dim"});
  c.state_size = k.Size({"linear_key_head_dim"});
  c.state_convolution = k.Size({"linear_conv_kernel_dim"}, c.state_convolution);
  c.state_chunk = 64;  // modeling_qwen3_next.py, torch_chunk_gated_delta_rule
  ReadExperts(k, c);
  c.ffn = k.Size({"moe_intermediate_size"});
  c.shared_ffn = k.Size({"shared_expert_intermediate_size"}, 0);
  c.shared_gate = c.shared_ffn > 0;
  if (k.Size({"decoder_sparse_step"}, 1) != 1 || !k.Numbers("mlp_only_layers").empty()) {
    k.Refuse("layers without experts (decoder_sparse_step, mlp_only_layers) are not modelled");
  }
  const int64_t every = k.Size({"full_attention_interval"}, 4);
  std::string mixers = Mixers(k, c, "linear_attention", 'G', "full_attention");
  if (mixers.empty() && every > 0 && c.layers <= kMostLayers) {
    for (int64_t i = 1; i <= c.layers; ++i) mixers += i % every == 0 ? '*' : 'G';
  }
  SetPattern(mixers, 'E', c);
}

}  // namespace foretrace
