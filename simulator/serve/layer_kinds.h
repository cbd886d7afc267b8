#pragma once
// Which layers of a model are alike: by their parts, and by how far back they attend.

#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "simulator/graph/state_scan.h"
#include "simulator/serve/attention_window.h"
#include "simulator/serve/engine_config.h"
#include "simulator/serve/serving_plan.h"
#include "simulator/workload/transformer_graph.h"

namespace foretrace::serve {

// Layers of the same parts (LayerKindOf): dense, or experts; of a pattern one part each.
struct ServedKind {
  TransformerConfig config;  // of a model that had no other layers
  TransformerGraph graph;
  int64_t layers = 0;
};
// Where all heads of states are one group, each rank has a copy of it (vLLM,
// model_executor/layers/mamba/mamba_mixer2.py, extra_groups_for_head_shards).
std::vector<ServedKind> ServedKinds(const TransformerConfig& model, const ServingPlan& plan);

// Layers that attend alike.
struct AttentionKind {
  AttentionWindow window;
  int64_t layers = 0;
};
std::vector<AttentionKind> AttentionKinds(const TransformerConfig& model);

// Layers with attention, and with a window or without.
int64_t AttentionLayers(const TransformerConfig& model);

// Layers with a state-space mixer, also beside attention, and its sizes on a device, of one token,
// which are the same in all; nullopt: there are none.
struct StateLayers {
  StateScan scan;
  int64_t layers = 0;
};
std::optional<StateLayers> StateLayersOf(const TransformerConfig& model, const ServingPlan& plan);
// Bytes of an element of the states that an engine keeps.
int64_t StateWidth(const TransformerConfig& model, const EngineConfig& engine);

// Elements that a token has in a layer's cache on one device: keys and values of its heads; with
// latent attention the latent and the rotated key, which every tensor-parallel rank holds whole.
int64_t CacheElements(const TransformerConfig& model, int64_t tensor);
// Bytes of these in elements of so many, with what sparse attention chooses by.
int64_t CacheBytes(const TransformerConfig& model, int64_t tensor, int64_t width);
// Of sparse attention (deepseek-ai/FlashMLA, README, "FP8 KV Cache"): of a token's latent in
// elements of so many bytes, those of 8 bits with a scale of 32 for each 128 and the rotated key in
// 16; and of its key of the index, in 8 bits with a scale.
int64_t LatentBytes(const TransformerConfig& model, int64_t width);
int64_t IndexBytes(const TransformerConfig& model);

// How the weights of an operator are stored.
WeightFormat FormatOf(const TransformerConfig& model, const GraphOp& op);

// A device's local sizes for so many of its tokens.
Binding BindServing(const ServedKind& kind, const ServingPlan& plan, int64_t tokens);

// Errors: layers of several kinds, of latent attention, or of one part each, which layer profiles
// and the studies of one layer do not have.
absl::Status CheckUniform(const TransformerConfig& model);

}  // namespace foretrace::serve
