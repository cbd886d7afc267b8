#pragma once
// Models whose layers differ: in what follows attention (dense layers of a mixture of experts), or
// in which part of a layer each one is (TransformerConfig::pattern).

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "simulator/workload/transformer.h"

namespace foretrace {

// What each layer of one kind has.
// kParallel: attention and a mixer that read the same norm, whose results are added up (Falcon-H1,
// 2025, arXiv 2507.22448). kDelta: a gated delta net (Qwen3-Next, 2025).
enum class LayerPart : uint8_t {
  kWhole,
  kMixer,
  kParallel,
  kDelta,
  kAttention,
  kFeedForward,
  kExperts,
  kCount
};
// As reports name layers that are one part alone.
std::string_view Name(LayerPart part);

// Of a model whose layers are alike.
LayerPart PartOf(const TransformerConfig& config);
// Whether any layer is that part alone.
bool HasPart(const TransformerConfig& config, LayerPart part);
// Whether any layer has a mixer with states.
bool HasStates(const TransformerConfig& config);
// How many layers are that part alone; all are kWhole where there is no pattern.
int64_t LayersWith(const TransformerConfig& config, LayerPart part);

// Kinds of layers are counted from 0: the layers with experts first; dense ones, or the others of a
// pattern, after them.
inline constexpr size_t kMostLayerKinds = 6;
size_t LayerKinds(const TransformerConfig& config);
size_t LayerKindOf(const TransformerConfig& config, int64_t layer);
int64_t LayersOfKindIn(const TransformerConfig& config, size_t kind);
// Of the modules that predict further tokens, all together: their layers, of a kind or of all.
int64_t FurtherLayersOfKind(const TransformerConfig& config, size_t kind);
int64_t FurtherLayers(const TransformerConfig& config);
// The kind of which there are most layers.
size_t CommonestKind(const TransformerConfig& config);
// The same model with layers of one kind alone.
TransformerConfig WithLayerKind(const TransformerConfig& config, size_t kind);

// What a report says of it: how many layers are what, and what of mixers is assumed.
std::string PatternNote(const TransformerConfig& config);

// A model cut to its first layers has as much of the pattern; further tokens, where the layers of
// their modules are among these.
void CutPattern(TransformerConfig& config);
void WithoutFurtherTokens(TransformerConfig& config);

// Of a model with its defaults filled in. Errors: letters that are none; a pattern of another
// length; sizes that are missing or have no layer; what goes with no pattern.
absl::Status CheckPattern(const TransformerConfig& config);

// That one chain of layers, each with attention and feed-forward, is the model. Errors: it has an
// encoder and a decoder, or a pattern.
absl::Status CheckChainOfWholeLayers(const TransformerConfig& config);

}  // namespace foretrace
