#include "simulator/mapping/trained_flop.h"

#include <algorithm>

#include "simulator/mapping/iteration_model.h"
#include "simulator/mapping/mapped_layer.h"

namespace foretrace {

Flop TrainedFlopOf(const TransformerConfig& model, const ParallelMapping& mapping) {
  const double whole = ModelFlopOf(model).count();
  if (mapping.trains_ends()) return Flop(whole);
  const int64_t frozen = FrozenLayers(model, mapping);
  double below = 0;
  if (frozen > 0) {
    TransformerConfig fewer = model;
    fewer.layers = model.layers - frozen;
    below = (whole - ModelFlopOf(fewer).count()) / 3;
  }
  ParallelMapping alone;
  alone.lora = mapping.lora;
  alone.lora_everywhere = mapping.lora_everywhere;
  alone.train_attention = mapping.train_attention;
  alone.train_ffn = mapping.train_ffn;
  // Every weight multiplies every token, those of experts the tokens routed to them.
  const auto weights = [&](bool dense) {
    const TransformerConfig c = DenseLayers(model) > 0 ? WithLayersOf(model, dense) : model;
    const MappedLayer layer(c, alone);
    const double routed =
        c.experts > 0 ? static_cast<double>(c.top_k) / static_cast<double>(c.experts) : 0;
    return layer.trained() + routed * layer.trained_expert();
  };
  const auto dense = static_cast<double>(DenseLayers(model));
  const double others = static_cast<double>(model.layers - frozen) - dense;
  double trained = others * weights(false);
  if (dense > 0) trained += dense * weights(true);
  return Flop(whole / 3 + (whole / 3 - below) + 2 * static_cast<double>(model.sequence) * trained);
}

}  // namespace foretrace
