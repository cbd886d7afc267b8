#pragma once
// The layers of one model for many mappings of it, of which each share is worked out once.

#include <memory>

#include "simulator/base/memo.h"
#include "simulator/mapping/mapped_layer.h"

namespace foretrace {

// What a device's share of a layer depends on of a mapping, all else at its default. MappedLayer of
// it is that of the mapping.
ParallelMapping LayerView(const ParallelMapping& mapping);

// Layers of one kind. Thread-safe.
class LayersOfKind {
 public:
  explicit LayersOfKind(TransformerConfig config)
      : config_(std::move(config)), graph_(GraphOf(config_)) {}

  const TransformerConfig& config() const { return config_; }
  // Stays as long as this; what it keeps for the backward pass is worked out.
  const MappedLayer& Of(const ParallelMapping& mapping) const;

 private:
  TransformerConfig config_;
  SharedGraph graph_;
  Memo<ParallelMapping, MappedLayer> known_;
};

// Thread-safe.
class ModelLayers {
 public:
  explicit ModelLayers(const TransformerConfig& model);

  const TransformerConfig& model() const { return model_; }
  // All of them, or, of layers of two kinds, those with experts.
  const LayersOfKind& main() const { return *main_; }
  // Of two kinds the dense ones; null: layers are alike.
  const LayersOfKind* dense() const { return dense_.get(); }

 private:
  TransformerConfig model_;
  std::unique_ptr<const LayersOfKind> main_, dense_;
};

// As dense layers of a mixture of experts have the mapping.
ParallelMapping WithoutExperts(ParallelMapping mapping);

}  // namespace foretrace
