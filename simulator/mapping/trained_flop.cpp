#include "simulator/mapping/trained_flop.h"

#include <algorithm>

#include "simulator/base/real_sizes.h"
#include "simulator/mapping/mapped_layer.h"
#include "simulator/workload/transformer_graph.h"

namespace foretrace {
namespace {

// Of a forward pass over `layers` layers alike.
double Gemms(const TransformerConfig& c, int64_t layers) {
  const TransformerGraph model = MakeTransformerGraph(c);
  return GemmFlop(model.graph, BindTransformer(model, c, {}), layers).count();
}

// Of a forward pass over a layer that attends to the whole sequence: scores, and what they weigh.
double WholeAttention(const TransformerConfig& c) {
  const TransformerGraph model = MakeTransformerGraph(c);
  const Binding sizes = BindTransformer(model, c, {});
  double flop = 0;
  for (OpId id = 0; static_cast<size_t>(id) < model.graph.ops().size(); ++id) {
    const GraphOp& op = model.graph.op(id);
    const bool attends = op.kind == GraphOpKind::kAttention || op.kind == GraphOpKind::kScores ||
                         op.kind == GraphOpKind::kContext;
    if (!op.in_block || !attends) continue;
    flop += GemmFlopOf(model.graph, sizes, id).count();
  }
  return flop;
}

// What windows leave out of all layers' attention, forward.
double OutsideWindows(const TransformerConfig& c) {
  if (c.window == 0 || c.window >= c.sequence) return 0;
  const double outside = 1 - AsDouble(c.window) / AsDouble(c.sequence);
  return WholeAttention(c) * outside * AsDouble(WindowedLayers(c));
}

double AttentionOf(const TransformerConfig& config) {
  const TransformerConfig c = WithDefaults(config);
  // Layers are whole, or attention alone.
  if (c.pattern.empty()) {
    return WholeAttention(WithLayersOf(c, false)) * AsDouble(c.layers) - OutsideWindows(c);
  }
  double flop = 0;
  for (size_t kind = 0; kind < LayerKinds(c); ++kind) {
    flop += WholeAttention(WithLayerKind(c, kind)) * AsDouble(LayersOfKindIn(c, kind));
  }
  return flop;
}

// Every weight multiplies every token, those of experts the tokens routed to them: of one layer,
// elements that are read for a token.
struct LayerElements {
  double trained = 0, experts = 0;
  bool trains_experts = false;
};
LayerElements ElementsOf(const TransformerConfig& model, size_t kind,
                         const ParallelMapping& mapping) {
  const TransformerConfig c = WithLayerKind(model, kind);
  const MappedLayer layer(c, mapping);
  const double routed = c.experts > 0 ? AsDouble(c.top_k) / AsDouble(c.experts) : 0;
  return {layer.trained() + routed * layer.trained_expert(), routed * layer.expert(),
          layer.trained_expert() > 0};
}

}  // namespace

Flop ModelFlopOf(const TransformerConfig& config) {
  const TransformerConfig c = WithDefaults(config);
  const TransformerConfig main = WithLayerKind(c, 0);
  const double outside = Gemms(main, 0), block = Gemms(main, 1) - outside;
  const auto layers = [&](size_t kind) {
    return AsDouble(LayersOfKindIn(c, kind) + FurtherLayersOfKind(c, kind));
  };
  double forward = outside + block * layers(0) - OutsideWindows(c);
  for (size_t kind = 1; kind < LayerKinds(c); ++kind) {
    forward += (Gemms(WithLayerKind(c, kind), 1) - outside) * layers(kind);
  }
  const Flop join = GemmFlopOf({FurtherTokenJoin(c, c.sequence, 1), c.dtype});
  forward += AsDouble(c.further_tokens) * (outside + join.count());
  // Backward multiplies twice as much.
  return Flop(3 * forward);
}

Flop TrainedFlopOf(const TransformerConfig& model, const ParallelMapping& mapping) {
  const double forward = ModelFlopOf(model).count() / 3, all = AsDouble(model.layers);
  ParallelMapping alone;
  alone.lora = mapping.lora;
  alone.lora_everywhere = mapping.lora_everywhere;
  alone.train_attention = mapping.train_attention;
  alone.train_ffn = mapping.train_ffn;
  const double tokens = AsDouble(model.sequence);
  // Layers of several kinds are trained in part nowhere (lastN).
  const int64_t dense = model.layers - LayersOfKindIn(model, 0);
  const LayerElements mixture = ElementsOf(model, 0, alone);
  // Passes over layers with experts, of which each multiplies what a token is routed to once.
  const double routed = all - AsDouble(dense);
  double passes = 3 * (routed + AsDouble(FurtherLayersOfKind(model, 0))), backward = 2 * forward;
  if (!mapping.trains_ends()) {
    const int64_t frozen = FrozenLayers(model, mapping);
    double below = 0;
    if (frozen > 0) {
      TransformerConfig fewer = model;
      fewer.layers = model.layers - frozen;
      below = forward - ModelFlopOf(fewer).count() / 3;
    }
    const double above = AsDouble(model.layers - frozen);
    passes = routed + (above - AsDouble(dense)) * (mixture.trains_experts ? 2 : 1);
    double trained = (above - AsDouble(dense)) * mixture.trained;
    for (size_t kind = 1; kind < LayerKinds(model); ++kind) {
      trained += AsDouble(LayersOfKindIn(model, kind)) * ElementsOf(model, kind, alone).trained;
    }
    // Attention multiplies no weights: it has both gradients wherever any passes.
    backward = forward - below + 2 * tokens * trained + AttentionOf(model) * above / all;
  }
  const double kept = mapping.expert_capacity > 0 ? std::min(1.0, mapping.expert_load()) : 1;
  const double dropped = (1 - kept) * 2 * tokens * mixture.experts;
  return Flop(forward + backward - passes * dropped);
}

}  // namespace foretrace
