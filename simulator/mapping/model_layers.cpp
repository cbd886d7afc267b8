#include "simulator/mapping/model_layers.h"

#include <algorithm>

namespace foretrace {

ParallelMapping LayerView(const ParallelMapping& m) {
  ParallelMapping view;
  view.tensor = m.tensor;
  view.context = m.context;
  view.ring = m.ring;
  view.ulysses = m.ulysses;
  view.expert = m.expert;
  view.expert_tensor = m.expert_tensor;
  view.expert_imbalance = m.expert_imbalance;
  view.expert_capacity = m.expert_capacity;
  view.balance_loss = m.balance_loss;
  view.micro_batch = m.micro_batch;
  view.sequence_parallel = m.sequence_parallel;
  view.gradient_bytes = m.gradient_bytes;
  // Where weights outside of layers are, and which ones are trained.
  view.pipeline = std::min(m.pipeline, 2);
  if (m.dual() || m.returns()) view.schedule = m.schedule;
  view.lora = m.lora;
  view.lora_everywhere = m.lora_everywhere;
  view.last_layers = std::min(m.last_layers, 1);
  view.train_attention = m.train_attention;
  view.train_ffn = m.train_ffn;
  return view;
}

const MappedLayer& LayersOfKind::Of(const ParallelMapping& mapping) const {
  const ParallelMapping view = LayerView(mapping);
  return known_.Get(view, [&] {
    MappedLayer layer(config_, view, graph_);
    layer.stash();
    return layer;
  });
}

ModelLayers::ModelLayers(const TransformerConfig& model) : model_(model) {
  for (size_t kind = 0; kind < LayerKinds(model); ++kind) {
    kinds_.push_back(std::make_unique<const LayersOfKind>(WithLayerKind(model, kind)));
  }
}

ParallelMapping MappingOfKind(const ParallelMapping& mapping, size_t kind) {
  ParallelMapping m = mapping;
  if (kind == 0) return m;
  m.expert = 1;
  m.expert_tensor = 0;
  m.dispatch = ExpertDispatch::kAllToAll;
  m.dispatch_fp8 = m.overlap_experts = false;
  return m;
}

}  // namespace foretrace
