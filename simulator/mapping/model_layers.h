#pragma once
// The layers of one model for many mappings of it, of which each share is worked out once.

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

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
  // By kind (LayerKindOf); where layers are alike one.
  size_t kinds() const { return kinds_.size(); }
  const LayersOfKind& kind(size_t kind) const { return *kinds_[kind]; }
  const LayersOfKind& main() const { return *kinds_.front(); }

 private:
  TransformerConfig model_;
  std::vector<std::unique_ptr<const LayersOfKind>> kinds_;
};

// As layers of a kind have the mapping: only those of the first may have experts.
ParallelMapping MappingOfKind(const ParallelMapping& mapping, size_t kind);

}  // namespace foretrace
