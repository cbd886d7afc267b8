#include "simulator/serve/layer_kinds.h"

#include <algorithm>

#include "simulator/base/error.h"

namespace foretrace::serve {

std::vector<FeedForwardKind> FeedForwardKinds(const TransformerConfig& model) {
  std::vector<FeedForwardKind> kinds;
  const auto add = [&](const TransformerConfig& config, int64_t layers) {
    if (layers > 0) kinds.push_back({config, MakeTransformerGraph(config), layers});
  };
  const int64_t dense = DenseLayers(model);
  if (dense == 0) {
    add(model, model.layers);
    return kinds;
  }
  add(WithLayersOf(model, false), model.layers - dense);
  add(WithLayersOf(model, true), dense);
  return kinds;
}

std::vector<AttentionKind> AttentionKinds(const TransformerConfig& model) {
  const int64_t windowed = WindowedLayers(model);
  std::vector<AttentionKind> kinds;
  if (windowed < model.layers) kinds.push_back({{}, model.layers - windowed});
  if (windowed > 0) kinds.push_back({{model.window, model.window_pieces}, windowed});
  return kinds;
}

int64_t CacheElements(const TransformerConfig& model, int64_t tensor) {
  if (model.latent > 0) return model.latent + model.rotary_size;
  return 2 * std::max<int64_t>(model.kv_heads / tensor, 1) * model.head_size;
}

WeightFormat FormatOf(const TransformerConfig& model, const GraphOp& op) {
  if (op.kind != GraphOpKind::kMatmul || !op.in_block || op.name == "router") {
    return WeightFormat::kModel;
  }
  const bool experts = model.experts > 0 && (op.name == "ffn up" || op.name == "ffn down");
  return experts ? model.expert_weights : model.weights;
}

Binding BindServing(const FeedForwardKind& kind, const ServingPlan& plan, int64_t tokens) {
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
  if (model.latent > 0) return refuse(model.layers, "have latent attention");
  if (const int64_t dense = DenseLayers(model); dense > 0) {
    return refuse(dense, "are dense, the others experts");
  }
  if (const int64_t windowed = WindowedLayers(model); windowed > 0) {
    return refuse(windowed, fmt::format("attend to no more than {} tokens", model.window));
  }
  return absl::OkStatus();
}

}  // namespace foretrace::serve
