#include "simulator/serve/layer_kinds.h"

#include <algorithm>

#include "simulator/base/error.h"
#include "simulator/workload/layer_pattern.h"

namespace foretrace::serve {

std::vector<ServedKind> ServedKinds(const TransformerConfig& given, const ServingPlan& plan) {
  TransformerConfig model = given;
  if (model.state_groups == 1) model.state_groups = plan.tensor;
  std::vector<ServedKind> kinds;
  for (size_t kind = 0; kind < LayerKinds(model); ++kind) {
    const int64_t layers = LayersOfKindIn(model, kind);
    if (layers == 0) continue;
    const TransformerConfig own = WithLayerKind(model, kind);
    kinds.push_back({own, MakeTransformerGraph(own), layers});
  }
  return kinds;
}

int64_t AttentionLayers(const TransformerConfig& model) {
  if (model.pattern.empty()) return model.layers;
  return LayersWith(model, LayerPart::kAttention) + LayersWith(model, LayerPart::kParallel);
}

std::vector<AttentionKind> AttentionKinds(const TransformerConfig& model) {
  const int64_t layers = AttentionLayers(model), windowed = WindowedLayers(model);
  std::vector<AttentionKind> kinds;
  if (windowed < layers) kinds.push_back({{}, layers - windowed});
  if (windowed > 0) kinds.push_back({{model.window, model.window_pieces}, windowed});
  return kinds;
}

std::optional<StateLayers> StateLayersOf(const TransformerConfig& model, const ServingPlan& plan) {
  std::optional<StateLayers> states;
  for (const ServedKind& kind : ServedKinds(model, plan)) {
    const OperatorGraph& graph = kind.graph.graph;
    for (const GraphOp& op : graph.ops()) {
      if (op.kind != GraphOpKind::kStateScan) continue;
      if (!states) states = StateLayers{ScanOf(graph, BindServing(kind, plan, 1), op), 0};
      states->layers += kind.layers;
    }
  }
  return states;
}

int64_t StateWidth(const TransformerConfig& model, const EngineConfig& engine) {
  if (engine.state_width > 0) return engine.state_width;
  return model.state_bits > 0 ? model.state_bits / 8 : ElementSize(model.dtype);
}

int64_t CacheElements(const TransformerConfig& model, int64_t tensor) {
  if (model.latent > 0) return model.latent + model.rotary_size;
  return 2 * std::max<int64_t>(model.kv_heads / tensor, 1) * model.head_size;
}

int64_t LatentBytes(const TransformerConfig& model, int64_t width) {
  if (width > 1) return (model.latent + model.rotary_size) * width;
  return model.latent + (model.latent + 127) / 128 * 4 + 2 * model.rotary_size;
}

int64_t IndexBytes(const TransformerConfig& model) { return model.index_size + 4; }

int64_t CacheBytes(const TransformerConfig& model, int64_t tensor, int64_t width) {
  if (model.index_keys > 0) return LatentBytes(model, width) + IndexBytes(model);
  return CacheElements(model, tensor) * width;
}

WeightFormat FormatOf(const TransformerConfig& model, const GraphOp& op) {
  if (op.kind != GraphOpKind::kMatmul || !op.in_block || op.name == "router" ||
      op.name == "index weights") {
    return WeightFormat::kModel;
  }
  const bool experts = model.experts > 0 && (op.name == "ffn up" || op.name == "ffn down");
  return experts ? model.expert_weights : model.weights;
}

Binding BindServing(const ServedKind& kind, const ServingPlan& plan, int64_t tokens) {
  TransformerConfig sized = kind.config;
  sized.sequence = tokens;
  const bool experts = kind.config.experts > 0;
  Binding sizes = BindTransformer(
      kind.graph, sized, {.tensor = plan.tensor, .expert = experts ? plan.expert_degree() : 1});
  if (!experts || !plan.expert) return sizes;
  const TransformerAxes& a = kind.graph.axes;
  sizes.size[static_cast<size_t>(a.ffn)] = kind.config.ffn;
  if (a.up != a.ffn) sizes.size[static_cast<size_t>(a.up)] = 2 * kind.config.ffn;
  return sizes;
}

absl::Status CheckUniform(const TransformerConfig& model) {
  const auto refuse = [&](int64_t layers, std::string_view what) {
    return Infeasible(
        "{}: layer profiles and studies of a layer take layers that are alike; {} of {} {}",
        model.name, layers, model.layers, std::string(what));
  };
  if (!model.pattern.empty()) return refuse(model.layers, "are one part alone");
  if (model.latent > 0) return refuse(model.layers, "have latent attention");
  if (model.expert_latent > 0) return refuse(model.layers, "have experts of latents");
  if (const int64_t dense = DenseLayers(model); dense > 0) {
    return refuse(dense, "are dense, the others experts");
  }
  if (const int64_t windowed = WindowedLayers(model); windowed > 0) {
    return refuse(windowed, fmt::format("attend to no more than {} tokens", model.window));
  }
  return absl::OkStatus();
}

}  // namespace foretrace::serve
