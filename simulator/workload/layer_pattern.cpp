#include "simulator/workload/layer_pattern.h"

#include <algorithm>
#include <array>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/ranges.h>

#include "simulator/base/enum_names.h"
#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/base/utf8.h"

namespace foretrace {
namespace {

// Megatron Core, ssm/mamba_hybrid_layer_allocation.py: Symbols, and P; in the order of kinds.
constexpr std::array<std::pair<char, LayerPart>, kMostLayerKinds> kLetters = {
    {{'E', LayerPart::kExperts},
     {'M', LayerPart::kMixer},
     {'P', LayerPart::kParallel},
     {'G', LayerPart::kDelta},
     {'*', LayerPart::kAttention},
     {'-', LayerPart::kFeedForward}}};

bool Has(const TransformerConfig& c, char letter) {
  return c.pattern.find(letter) != std::string::npos;
}

// All that modules for further tokens have.
bool HasFurtherLayers(const TransformerConfig& c) {
  return std::ranges::all_of(c.further_pattern, [&](char letter) { return Has(c, letter); });
}

char LetterOfKind(const TransformerConfig& c, size_t kind) {
  for (const auto& entry : kLetters) {
    if (Has(c, entry.first) && kind-- == 0) return entry.first;
  }
  return c.pattern[0];
}

// What only layers with experts have.
void DropExperts(TransformerConfig& c) {
  c.experts = c.top_k = c.shared_ffn = c.expert_latent = c.expert_groups = c.chosen_groups = 0;
}

absl::Status CheckLetters(const TransformerConfig& c) {
  for (const char letter : c.pattern) {
    const bool known =
        std::ranges::any_of(kLetters, [&](const auto& entry) { return entry.first == letter; });
    if (known) continue;
    return InvalidInput(
        "workload '{}': '{}' in pattern is no layer; M is a state-space mixer, * attention, P both "
        "side by side, G a gated delta net, - a dense feed-forward layer, E a mixture of experts",
        c.name, letter);
  }
  if (c.pattern.size() > 1 && static_cast<int64_t>(c.pattern.size()) != c.layers) {
    return InvalidInput("workload '{}': pattern has {} letters for {} layers", c.name,
                        c.pattern.size(), c.layers);
  }
  return absl::OkStatus();
}

absl::Status CheckFurther(const TransformerConfig& c) {
  constexpr int64_t kMost = 100'000;  // layers
  const bool needed = !c.pattern.empty() && c.further_tokens > 0;
  if (needed == c.further_pattern.empty() || !HasFurtherLayers(c)) {
    return InvalidInput(
        "workload '{}': further_pattern '{}'; further_tokens of a model with a pattern need it, "
        "and it these: by letters of that, which layers a further token's module has",
        c.name, Excerpt(c.further_pattern, 60));
  }
  if (c.further_tokens > kMost || FurtherLayers(c) > kMost) {
    return InvalidInput("workload '{}': modules for further_tokens {} have more than {} layers",
                        c.name, c.further_tokens, kMost);
  }
  return absl::OkStatus();
}

// What fla's kernels take (ops/gated_delta_rule/chunk_fwd.py, ops/common/chunk_delta_h.py).
absl::Status CheckDelta(const TransformerConfig& c) {
  if (Has(c, 'M') || Has(c, 'P')) {
    return InvalidInput(
        "workload '{}': pattern has gated delta nets (G) and state-space mixers (M, P), which "
        "share the sizes state_*; one of them would do",
        c.name);
  }
  const bool chunk = c.state_chunk == 16 || c.state_chunk == 32 || c.state_chunk == 64;
  if (!chunk || c.state_size > 256 || !c.state_norm) {
    return InvalidInput(
        "workload '{}': gated delta nets (G) take a state_chunk of 16, 32 or 64, not {}, a "
        "state_size of at most 256, not {}, and have a state_norm",
        c.name, c.state_chunk, c.state_size);
  }
  return absl::OkStatus();
}

absl::Status CheckState(const TransformerConfig& c) {
  constexpr int64_t kMost = int64_t{1} << 20;
  // Models without mixers have the defaults.
  const TransformerConfig none;
  const std::tuple<const char*, int64_t, int64_t> sizes[] = {
      {"state_heads", c.state_heads, none.state_heads},
      {"state_head_size", c.state_head_size, none.state_head_size},
      {"state_size", c.state_size, none.state_size},
      {"state_groups", c.state_groups, none.state_groups},
      {"state_convolution", c.state_convolution, none.state_convolution},
      {"state_chunk", c.state_chunk, none.state_chunk}};
  const bool mixers = HasStates(c);
  for (const auto& [what, size, without] : sizes) {
    if (mixers ? size < 1 || size > kMost : size != without) {
      return InvalidInput(
          "workload '{}': {} {}; models whose pattern has mixers with states (M, P, G) have one "
          "from 1 to {}, others none",
          c.name, what, size, kMost);
    }
  }
  if (c.state_bits != 0 && (!mixers || (c.state_bits != 16 && c.state_bits != 32))) {
    return InvalidInput(
        "workload '{}': state_bits {}: states are kept in 16 or 32 bits, and models without "
        "mixers (M, P, G) have none",
        c.name, c.state_bits);
  }
  if (!c.state_norm && !mixers) {
    return InvalidInput("workload '{}': state_norm is of state-space mixers (M, P)", c.name);
  }
  if (HasPart(c, LayerPart::kDelta)) FORETRACE_RETURN_IF_ERROR(CheckDelta(c));
  if (mixers && c.state_heads % c.state_groups != 0) {
    return InvalidInput("workload '{}': state_groups {} do not divide the {} state_heads", c.name,
                        c.state_groups, c.state_heads);
  }
  const auto size = [](int64_t v) { return static_cast<double>(v); };
  const double elements = size(c.state_heads) * size(c.state_head_size);
  if (size(c.layers) * 160 * elements *
          std::max({size(c.sequence) * size(c.state_size + c.state_chunk), size(c.hidden) * 4}) >
      1e18) {
    return InvalidInput("workload '{}': its sizes exceed 1e18 bytes or parameters in all", c.name);
  }
  return absl::OkStatus();
}

}  // namespace

std::string_view Name(LayerPart part) {
  static constexpr std::array<std::string_view, 7> kNames = {
      "whole layers",       "state-space mixers", "attention beside state-space mixers",
      "gated delta nets",   "attention",          "dense feed-forward layers",
      "mixtures of experts"};
  return EnumName(kNames, part);
}

LayerPart PartOf(const TransformerConfig& c) {
  for (const auto& [letter, part] : kLetters) {
    if (!c.pattern.empty() && c.pattern[0] == letter) return part;
  }
  return LayerPart::kWhole;
}

bool HasPart(const TransformerConfig& c, LayerPart part) {
  if (part == LayerPart::kWhole) return c.pattern.empty();
  return std::ranges::any_of(
      kLetters, [&](const auto& entry) { return entry.second == part && Has(c, entry.first); });
}

bool HasStates(const TransformerConfig& c) {
  return HasPart(c, LayerPart::kMixer) || HasPart(c, LayerPart::kParallel) ||
         HasPart(c, LayerPart::kDelta);
}

int64_t LayersWith(const TransformerConfig& c, LayerPart part) {
  if (part == LayerPart::kWhole || c.pattern.empty()) {
    return part == LayerPart::kWhole && c.pattern.empty() ? c.layers : 0;
  }
  int64_t layers = 0;
  for (size_t kind = 0; kind < LayerKinds(c); ++kind) {
    if (PartOf(WithLayerKind(c, kind)) == part) layers += LayersOfKindIn(c, kind);
  }
  return layers;
}

size_t LayerKinds(const TransformerConfig& c) {
  if (c.pattern.empty()) return DenseLayers(c) > 0 ? 2 : 1;
  size_t kinds = 0;
  for (const auto& entry : kLetters) kinds += Has(c, entry.first) ? 1 : 0;
  return kinds;
}

size_t LayerKindOf(const TransformerConfig& c, int64_t layer) {
  if (c.pattern.empty()) return c.experts > 0 && IsDenseLayer(c, layer) ? 1 : 0;
  if (c.pattern.size() == 1) return 0;
  size_t kind = 0;
  for (const auto& entry : kLetters) {
    if (c.pattern[static_cast<size_t>(layer)] == entry.first) return kind;
    kind += Has(c, entry.first) ? 1 : 0;
  }
  return 0;
}

int64_t LayersOfKindIn(const TransformerConfig& c, size_t kind) {
  if (c.pattern.empty()) return kind > 0 ? DenseLayers(c) : c.layers - DenseLayers(c);
  int64_t layers = 0;
  for (int64_t i = 0; i < c.layers; ++i) layers += LayerKindOf(c, i) == kind ? 1 : 0;
  return layers;
}

int64_t FurtherLayersOfKind(const TransformerConfig& c, size_t kind) {
  if (c.pattern.empty()) return kind == 0 ? c.further_tokens : 0;
  return c.further_tokens * std::ranges::count(c.further_pattern, LetterOfKind(c, kind));
}

int64_t FurtherLayers(const TransformerConfig& c) {
  const auto each = c.pattern.empty() ? 1 : static_cast<int64_t>(c.further_pattern.size());
  return c.further_tokens * each;
}

size_t CommonestKind(const TransformerConfig& c) {
  size_t most = 0;
  for (size_t kind = 1; kind < LayerKinds(c); ++kind) {
    if (LayersOfKindIn(c, kind) > LayersOfKindIn(c, most)) most = kind;
  }
  return most;
}

TransformerConfig WithLayerKind(const TransformerConfig& config, size_t kind) {
  if (config.pattern.empty()) {
    return LayerKinds(config) > 1 ? WithLayersOf(config, kind > 0) : config;
  }
  TransformerConfig c = config;
  c.pattern = LetterOfKind(config, kind);
  if (PartOf(c) != LayerPart::kExperts) DropExperts(c);
  if (PartOf(c) == LayerPart::kFeedForward && c.dense_ffn > 0) c.ffn = c.dense_ffn;
  c.dense_ffn = 0;
  return c;
}

std::string PatternNote(const TransformerConfig& c) {
  std::vector<std::string> parts;
  for (size_t kind = 0; kind < LayerKinds(c); ++kind) {
    parts.push_back(
        fmt::format("{} {}", LayersOfKindIn(c, kind), Name(PartOf(WithLayerKind(c, kind)))));
  }
  const std::string mixers =
      HasStates(c)
          ? fmt::format(
                "; scans of mixers go by chunks of {} tokens, backward GEMMs with decays at the "
                "rate that forward ones attain",
                c.state_chunk)
          : "";
  return fmt::format("layers are one part each: {}{}", fmt::join(parts, ", "), mixers);
}

void CutPattern(TransformerConfig& c) {
  if (c.pattern.size() > 1 && c.layers > 0 && c.layers < static_cast<int64_t>(c.pattern.size())) {
    c.pattern.resize(static_cast<size_t>(c.layers));
  }
  if (!HasFurtherLayers(c)) WithoutFurtherTokens(c);
}

void WithoutFurtherTokens(TransformerConfig& c) {
  c.further_tokens = 0;
  c.further_pattern.clear();
}

absl::Status CheckPattern(const TransformerConfig& c) {
  FORETRACE_RETURN_IF_ERROR(CheckLetters(c));
  FORETRACE_RETURN_IF_ERROR(CheckFurther(c));
  FORETRACE_RETURN_IF_ERROR(CheckState(c));
  if (c.pattern.empty()) return absl::OkStatus();
  const bool decoders =
      c.family == TransformerFamily::kGpt || c.family == TransformerFamily::kLlama;
  if (!decoders || c.decoder_layers > 0 || c.dense_first > 0 || c.experts_every != 1 ||
      c.parallel_norms > 0 || c.window > 0 || c.latent > 0) {
    return InvalidInput(
        "workload '{}': a pattern is of gpt and llama, and says which layers are what; it goes "
        "with none of dense_first, experts_every, parallel_norms, window, latent",
        c.name);
  }
  if (Has(c, 'E') != (c.experts > 0)) {
    return InvalidInput("workload '{}': experts go with layers E in pattern, and these with them",
                        c.name);
  }
  if ((c.dense_ffn > 0) != (Has(c, 'E') && Has(c, '-'))) {
    return InvalidInput(
        "workload '{}': dense_ffn is the width of layers - in a pattern that has layers E too",
        c.name);
  }
  return absl::OkStatus();
}

absl::Status CheckChainOfWholeLayers(const TransformerConfig& c) {
  if (c.family == TransformerFamily::kT5) {
    return InvalidInput(
        "{}: models of an encoder and a decoder have no single chain of layers; give a model of "
        "one stack",
        c.name);
  }
  if (!c.pattern.empty()) {
    return InvalidInput(
        "{}: layers that are state-space mixers, attention or feed-forward alone are not covered; "
        "give a model whose layers are alike",
        c.name);
  }
  return absl::OkStatus();
}

}  // namespace foretrace
