#include <algorithm>
#include <array>
#include <utility>

#include "simulator/base/enum_names.h"
#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/workload/layer_pattern.h"
#include "simulator/workload/transformer.h"

namespace foretrace {

std::string_view Name(TransformerFamily family) {
  static constexpr std::array<std::string_view, 4> kNames = {"gpt", "llama", "bert", "t5"};
  return EnumName(kNames, family);
}

namespace {

bool IsLlama(const TransformerConfig& c) { return c.family == TransformerFamily::kLlama; }
bool IsGptLike(const TransformerConfig& c) {
  return c.family == TransformerFamily::kGpt || c.family == TransformerFamily::kBert;
}

}  // namespace

bool IsGated(const TransformerConfig& c) { return c.gated.value_or(IsLlama(c)); }
bool HasBiases(const TransformerConfig& c) { return c.biases.value_or(IsGptLike(c)); }
bool HasQkvBiases(const TransformerConfig& c) { return c.qkv_biases.value_or(HasBiases(c)); }
bool HasNormBiases(const TransformerConfig& c) { return c.norm_biases.value_or(IsGptLike(c)); }
bool IsTied(const TransformerConfig& c) { return c.tied.value_or(!IsLlama(c)); }
bool LearnsPositions(const TransformerConfig& c) {
  return c.learned_positions.value_or(IsGptLike(c));
}
bool IsRotary(const TransformerConfig& c) { return c.rotary.value_or(IsLlama(c)); }
bool Drops(const TransformerConfig& c) { return c.dropout && !IsLlama(c); }

bool IsDenseLayer(const TransformerConfig& c, int64_t layer) {
  return c.experts == 0 || layer < c.dense_first ||
         (layer + 1) % std::max<int64_t>(c.experts_every, 1) != 0;
}

int64_t DenseLayers(const TransformerConfig& c) {
  int64_t dense = 0;
  for (int64_t i = 0; c.experts > 0 && i < c.layers; ++i) dense += IsDenseLayer(c, i) ? 1 : 0;
  return dense;
}

std::optional<UndividedSize> FirstUndivided(const TransformerConfig& c, int64_t tensor,
                                            bool whole_experts) {
  if (c.heads % tensor != 0) return UndividedSize{"heads", c.heads};
  if (c.state_heads % tensor != 0) return UndividedSize{"heads of states", c.state_heads};
  if (c.state_groups % tensor != 0) return UndividedSize{"groups of states", c.state_groups};
  const int64_t keys = c.kv_heads > 0 ? c.kv_heads : c.heads;
  if (keys % tensor != 0 && tensor % keys != 0) return UndividedSize{"heads of keys", keys};
  const bool whole = c.experts > 0 && whole_experts;
  const int64_t ffn = whole ? 0 : c.ffn > 0 ? c.ffn : 4 * c.hidden;
  for (const int64_t width : {ffn, c.dense_ffn, c.shared_ffn}) {
    if (width % tensor != 0) return UndividedSize{"feed-forward columns", width};
  }
  return std::nullopt;
}

int64_t ExpertWidth(const TransformerConfig& c) {
  return c.expert_latent > 0 ? c.expert_latent : c.hidden;
}

int64_t WindowedLayers(const TransformerConfig& c) {
  if (c.window == 0) return 0;
  return c.layers - (c.global_every > 0 ? c.layers / c.global_every : 0);
}

TransformerConfig WithLayersOf(const TransformerConfig& config, bool dense) {
  TransformerConfig c = config;
  if (dense) {
    c.ffn = c.dense_ffn;
    c.experts = c.top_k = c.shared_ffn = c.expert_latent = c.expert_groups = c.chosen_groups = 0;
  }
  c.dense_first = c.dense_ffn = 0;
  c.experts_every = 1;
  return c;
}

TransformerConfig WithoutIdleExperts(const TransformerConfig& c) {
  const bool idle = c.experts > 0 && c.dense_ffn > 0 && c.layers > 0 && DenseLayers(c) == c.layers;
  return idle ? WithLayersOf(c, true) : c;
}

namespace {

// No published model comes near these; they keep every product below inside 63 bits.
constexpr int64_t kMaxSize = int64_t{1} << 24;
constexpr int64_t kMaxLayers = 100'000;
constexpr int64_t kMaxExperts = int64_t{1} << 16;

// Latent attention and layers that differ.
absl::Status CheckDepartures(const TransformerConfig& c) {
  const std::pair<const char*, int64_t> sizes[] = {{"latent", c.latent},
                                                   {"query_latent", c.query_latent},
                                                   {"rotary_size", c.rotary_size},
                                                   {"value_size", c.value_size},
                                                   {"index_heads", c.index_heads},
                                                   {"index_size", c.index_size},
                                                   {"index_keys", c.index_keys},
                                                   {"dense_first", c.dense_first},
                                                   {"dense_ffn", c.dense_ffn},
                                                   {"experts_every", c.experts_every - 1},
                                                   {"further_tokens", c.further_tokens},
                                                   {"window", c.window},
                                                   {"global_every", c.global_every}};
  for (const auto& [what, size] : sizes) {
    if (size < 0 || size > kMaxSize) {
      return InvalidInput("workload '{}': {} is negative, zero where it counts layers, or above {}",
                          c.name, what, kMaxSize);
    }
  }
  const bool plain = c.query_latent == 0 && c.rotary_size == 0 && c.value_size == 0;
  if (c.latent == 0 ? !plain
                    : c.value_size == 0 || c.rotary_size >= c.head_size || c.kv_heads != c.heads ||
                          HasQkvBiases(c) || c.qk_norm || c.decoder_layers > 0) {
    return InvalidInput(
        "workload '{}': latent attention needs latent, value_size, and rotary_size below head_size "
        "{}; as many kv_heads as heads, no qkv_biases, qk_norm or decoder",
        c.name, c.head_size);
  }
  const bool sparse = c.index_heads > 0 && c.index_size > 0 && c.index_keys > 0;
  const bool dense = c.index_heads == 0 && c.index_size == 0 && c.index_keys == 0;
  if (!dense && (!sparse || c.query_latent == 0)) {
    return InvalidInput(
        "workload '{}': sparse attention needs index_heads, index_size and index_keys, and latents "
        "of keys and queries (latent, query_latent)",
        c.name);
  }
  if (c.window == 0 ? c.global_every > 0 || c.window_pieces
                    : c.global_every == 1 || c.global_every > c.layers || c.latent > 0 ||
                          c.decoder_layers > 0) {
    return InvalidInput(
        "workload '{}': global_every and window_pieces go with window, which goes with neither "
        "latent "
        "attention nor a decoder; global_every is 0 or from 2 to the {} layers",
        c.name, c.layers);
  }
  if (c.parallel_norms < 0 || c.parallel_norms > 2 ||
      (c.parallel_norms > 0 && (c.experts > 0 || c.decoder_layers > 0))) {
    return InvalidInput(
        "workload '{}': parallel_norms is 0, 1 or 2, of layers without experts or a decoder",
        c.name);
  }
  const bool said = c.dense_first > 0 || c.experts_every != 1;
  if (!c.pattern.empty()) return CheckPattern(c);
  if ((said && c.experts == 0) || c.experts_every > c.layers || c.dense_first >= c.layers ||
      (DenseLayers(c) > 0) != (c.dense_ffn > 0)) {
    return InvalidInput(
        "workload '{}': dense_first and experts_every leave {} of {} layers dense, which need "
        "dense_ffn, and one layer with experts; without dense layers there is none",
        c.name, DenseLayers(c), c.layers);
  }
  return CheckPattern(c);
}

}  // namespace

namespace {

absl::Status CheckGroups(const TransformerConfig& c) {
  if (c.expert_groups == 0 && c.chosen_groups == 0) return absl::OkStatus();
  const bool groups = c.expert_groups > 0 && c.experts % c.expert_groups == 0;
  if (!groups || c.chosen_groups < 1 || c.chosen_groups > c.expert_groups ||
      c.chosen_groups * (c.experts / c.expert_groups) < c.top_k) {
    return InvalidInput(
        "workload '{}': expert_groups {} must divide the {} experts, and chosen_groups {} of them "
        "have at least the {} experts of a token",
        c.name, c.expert_groups, c.experts, c.chosen_groups, c.top_k);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckTransformer(const TransformerConfig& c) {
  const std::pair<const char*, int64_t> required[] = {
      {"hidden", c.hidden},         {"layers", c.layers},     {"heads", c.heads},
      {"vocabulary", c.vocabulary}, {"sequence", c.sequence}, {"ffn", c.ffn},
      {"head_size", c.head_size},   {"kv_heads", c.kv_heads}};
  for (const auto& [what, value] : required) {
    if (value <= 0 || value > kMaxSize) {
      return InvalidInput("workload '{}': {} must be between 1 and {}, not {}", c.name, what,
                          kMaxSize, value);
    }
  }
  if (c.layers > kMaxLayers || c.decoder_layers < 0 || c.decoder_layers > kMaxLayers) {
    return InvalidInput("workload '{}': more than {} layers", c.name, kMaxLayers);
  }
  if (c.heads % c.kv_heads != 0) {
    return InvalidInput("workload '{}': heads {} is not a multiple of kv_heads {}", c.name, c.heads,
                        c.kv_heads);
  }
  if (c.experts > kMaxExperts) {
    return InvalidInput("workload '{}': more than {} experts", c.name, kMaxExperts);
  }
  if (c.experts < 0 || (c.experts > 0) != (c.top_k > 0) || c.top_k > c.experts) {
    return InvalidInput("workload '{}': top_k {} must be between 1 and experts {}", c.name, c.top_k,
                        c.experts);
  }
  FORETRACE_RETURN_IF_ERROR(CheckGroups(c));
  if (c.shared_ffn < 0 || c.shared_ffn > kMaxSize || (c.shared_ffn > 0 && c.experts == 0)) {
    return InvalidInput("workload '{}': shared_ffn {} needs experts, and at most {}", c.name,
                        c.shared_ffn, kMaxSize);
  }
  if (c.expert_latent < 0 || c.expert_latent > kMaxSize ||
      (c.expert_latent > 0 && c.experts == 0)) {
    return InvalidInput("workload '{}': expert_latent {} needs experts, and at most {}", c.name,
                        c.expert_latent, kMaxSize);
  }
  if ((c.attention_gate && (c.latent > 0 || c.decoder_layers > 0)) ||
      (c.shared_gate && c.shared_ffn == 0)) {
    return InvalidInput(
        "workload '{}': attention_gate goes with neither latent attention nor a decoder, and "
        "shared_gate with shared_ffn",
        c.name);
  }
  if (c.clamped && !(IsGated(c) && c.experts > 0)) {
    return InvalidInput("workload '{}': clamped is of gated activations of experts", c.name);
  }
  FORETRACE_RETURN_IF_ERROR(CheckDepartures(c));
  if ((c.family == TransformerFamily::kT5) != (c.decoder_layers > 0)) {
    return InvalidInput("workload '{}': decoder_layers is for t5, which needs it", c.name);
  }
  const auto size = [](int64_t v) { return static_cast<double>(v); };
  const double copies = size(std::max<int64_t>(c.experts, 1));
  const double largest = std::max(
      {size(c.heads) * size(c.sequence) * size(c.sequence) * 160,
       size(c.sequence) * size(c.heads) * size(c.head_size) * 160,
       size(c.sequence) * size(c.vocabulary) * 160, size(c.sequence) * size(c.ffn) * copies * 160,
       size(c.sequence) * size(c.expert_latent) * copies * 160,
       4 * size(c.hidden) * size(c.shared_ffn + c.expert_latent),
       copies * 4 * size(std::max(c.hidden, c.expert_latent)) * size(c.ffn)});
  if (largest > 1e18 / size(c.layers + c.decoder_layers)) {
    return InvalidInput("workload '{}': its sizes exceed 1e18 bytes or parameters in all", c.name);
  }
  if (ElementSize(c.dtype) == 0) return InvalidInput("workload '{}': unknown dtype", c.name);
  return absl::OkStatus();
}

absl::Status CheckTrainedAttention(const TransformerConfig& c) {
  if (c.index_keys == 0) return absl::OkStatus();
  return InvalidInput(
      "{}: sparse attention (index_keys) is of `serve` alone; without index_heads, index_size and "
      "index_keys it is the model with attention to all tokens that training began with",
      c.name);
}

TransformerConfig WithDefaults(TransformerConfig c) {
  if (c.layers == 0) c.layers = static_cast<int64_t>(c.pattern.size());
  if (c.ffn == 0) c.ffn = 4 * c.hidden;
  if (c.kv_heads == 0) c.kv_heads = c.heads;
  if (c.head_size == 0 && c.heads > 0) c.head_size = c.hidden / c.heads;
  if (c.positions == 0) c.positions = c.sequence;
  return c;
}

}  // namespace foretrace
