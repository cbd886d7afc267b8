#include "simulator/mapping/memory_model.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "simulator/base/dtype.h"
#include "simulator/base/real_sizes.h"
#include "simulator/mapping/chunk_stash.h"
#include "simulator/mapping/kept_activations.h"
#include "simulator/mapping/kept_inputs.h"
#include "simulator/mapping/mapped_layer.h"
#include "simulator/mapping/mixed_layers.h"
#include "simulator/mapping/model_layers.h"
#include "simulator/mapping/optimizer_costs.h"

namespace foretrace {
namespace {

constexpr double kMaster = 4;  // bytes

// What a device has of a stage's weights, their gradients and the optimizer's states, wherever it
// keeps them.
MemoryLedger StatesOf(const TransformerConfig& c, const ParallelMapping& m, int32_t stage,
                      const MappedLayer& layer) {
  const double e = AsDouble(ElementSize(c.dtype));
  const bool first = HasEmbedding(m, stage), last = HasHead(m, stage);
  const double layers = AsDouble(StageLayers(c, m, stage) + (last ? FurtherLayers(c) : 0));
  // A tied output layer has no weights of its own where the embedding is, a copy of them else.
  const double dense = layers * layer.dense() + (first ? layer.embedding() : 0) +
                       (last && !(IsTied(c) && first) ? layer.head() : 0);
  const double expert = layers * layer.expert();
  const double changing = layers - AsDouble(stage == 0 ? FrozenLayers(c, m) : 0);
  const double trained = m.trains_ends() ? dense : changing * layer.trained();
  const double trained_expert = changing * layer.trained_expert();
  const auto divided = [&](int32_t from, double plain, double of_experts) {
    if (m.zero < from) return plain + of_experts;
    return plain / m.shards() + of_experts / m.expert_shards();
  };
  MemoryLedger states;
  states.weights = WholeBytes(e * divided(3, dense, expert));
  states.gradients =
      WholeBytes(AsDouble(GradientBytes(c, m)) * divided(2, trained, trained_expert));
  states.optimizer = WholeBytes(AsDouble(StateBytes(c, m)) * divided(1, trained, trained_expert));
  if (HasShardedMasters(c, m)) {
    states.weights = WholeBytes(kMaster * divided(3, dense, expert));
    states.optimizer = states.optimizer - WholeBytes(kMaster * divided(3, trained, trained_expert));
  }
  // All of them, in the model's type (DeepSpeed, runtime/zero/partition_parameters.py,
  // _partition_param_sec).
  if (m.second_shards > 0) states.weights += WholeBytes(e * (dense + expert) / m.second_shards);
  return states;
}

// Of these, what the host keeps.
MemoryLedger OnHost(const ParallelMapping& m, MemoryLedger states) {
  if (!m.offload_weights) states.weights = Bytes();
  if (!m.offload || m.zero < 2) states.gradients = Bytes();
  if (!m.offload) states.optimizer = Bytes();
  return states;
}

// By `of_kind(model, mapping, layer)`, of a stage's layers of all kinds in proportion.
template <typename OfKind>
MemoryLedger OfAllKinds(const ModelLayers& model, const ParallelMapping& m, int32_t stage,
                        const OfKind& of_kind) {
  const TransformerConfig& c = model.model();
  const auto of = [&](const LayersOfKind& kind, const ParallelMapping& mapping) {
    return of_kind(kind.config(), mapping, kind.Of(mapping));
  };
  if (model.kinds() == 1) return of(model.main(), m);
  const LayerCounts counts = StageLayersWithFurther(c, m, stage);
  const double layers =
      AsDouble(std::max<int64_t>(std::accumulate(counts.begin(), counts.end(), int64_t{0}), 1));
  std::vector<LedgerShare> kinds;
  double rest = 1;
  for (size_t kind = 1; kind < model.kinds(); ++kind) {
    const double share = AsDouble(counts[kind]) / layers;
    if (counts[kind] > 0) {
      kinds.push_back({of(model.kind(kind), MappingOfKind(m, kind)), share});
    }
    rest -= share;
  }
  if (counts[0] > 0 || kinds.empty()) kinds.push_back({of(model.main(), m), rest});
  return Mean(kinds);
}

// Of ZeRO 3: gathered weights and gradients before they are reduced. Two layers' weights, with the
// buffer that stays where they are copied out of it, one layer's gradients and their form for the
// reduction; weights outside of layers are of the root, which keeps them (PassTimes::first_root).
// PyTorch's FSDP begins a backward pass with the layer that its forward pass ended with, and
// reduces all of the root's gradients when it ends
// (torch/distributed/fsdp/_fully_shard/_fsdp_state.py, _root_post_backward_final_callback).
double GatheredAt(StageMoment moment, const TransformerConfig& c, const ParallelMapping& m,
                  int32_t stage, const MappedLayer& layer) {
  const double e = AsDouble(ElementSize(c.dtype)), g = AsDouble(GradientBytes(c, m));
  const bool last = HasHead(m, stage);
  const double block = layer.dense() + layer.expert();
  const double trained = m.lora > 0 ? 0 : layer.trained() + layer.trained_expert();
  const auto [first_root, last_root] = layer.RootWeights();
  const double root = (stage == 0 ? first_root : 0) + (last ? last_root : 0);
  const double head = last && m.trains_ends() ? layer.head() : 0;
  const double layers = (c.copies_gathered ? 3 : 2) * e * block + (e + g) * trained;
  if (!HasShardedMasters(c, m)) return layers + e * root + (last ? (e + g) * head : 0);
  const double ends = m.trains_ends() ? root : 0;
  if (moment == StageMoment::kLoss) return e * (root + block);
  // Its own weights are gone by then; gradients before they are reduced, in both forms, are so
  // before what comes of the reduction is there.
  if (moment == StageMoment::kRoot) return ends * (g + std::max(e - g / m.shards(), 0.0));
  return layers + e * (root + head);
}

// `held`: micro-batches whose logits are there.
Bytes LogitsAt(StageMoment moment, const TransformerConfig& c, const ParallelMapping& m,
               double held) {
  const LogitMemory logits = LogitMemoryOf(c, m);
  const bool runs = moment == StageMoment::kLoss;
  const double kept = (runs ? held : std::max(held - 1, 0.0)) * AsDouble(1 + c.further_tokens);
  return WholeBytes(kept * logits.kept + (runs ? logits.passing : 0));
}

MemoryLedger DeviceMemoryOf(StageMoment moment, const TransformerConfig& c,
                            const ParallelMapping& m, int32_t stage, const MappedLayer& layer) {
  const bool last = HasHead(m, stage);
  const double layers = AsDouble(StageLayers(c, m, stage) + (last ? FurtherLayers(c) : 0));
  MemoryLedger use = StatesOf(c, m, stage, layer);
  const MemoryLedger host = OnHost(m, use);
  use.weights = use.weights - host.weights;
  use.gradients = use.gradients - host.gradients;
  use.optimizer = use.optimizer - host.optimizer;
  if (m.zero >= 3) use.gathered = WholeBytes(GatheredAt(moment, c, m, stage, layer));
  const bool made = moment == StageMoment::kRoot || m.microbatches() > 1;
  if (HasShardedMasters(c, m) && !made) use.gradients = Bytes();
  const double frozen = AsDouble(stage == 0 ? FrozenLayers(c, m) : 0);
  const double chunk_layers = (layers - frozen) / m.chunks,
               kept = StashOf(layer, m, m.recompute, c);
  const double stash =
      m.recompute == Recompute::kFull ? MeanInputs(c, m, stage) * kept : chunk_layers * kept;
  use.activations = WholeBytes(AsDouble(ChunksInFlight(m, stage)) * stash);
  const bool none = m.recomputes_some() && StageLayersAgain(c, m, stage) == 0;
  if (moment != StageMoment::kLayers) {
    // Nothing runs again.
  } else if (RecomputesParts(m.recompute)) {
    use.recomputed = WholeBytes(MadeAgainBytes(layer, m));
  } else if (m.recompute != Recompute::kNone && !none) {
    // Of layers that run again at once, with what is kept of them.
    const auto together =
        AsDouble(std::min<int64_t>(m.layers_an_input(), MostTrainedLayers(c, m, stage)));
    use.recomputed = WholeBytes(together * StashOf(layer, m, Recompute::kNone, c) - kept);
  }
  // Of one micro-batch as the last stage's backward pass follows at once, of all under GPipe.
  if (last) {
    const double count = AsDouble(ChunksInFlight(m, stage)) / m.chunks;
    const double held = m.schedule == ScheduleKind::kGPipe ? count : std::min(count, 1.0 * m.k);
    use.logits = LogitsAt(moment, c, m, held);
  }
  return use;
}

// Of one pass of the first chunk.
Bytes PassActivations(const ModelLayers& model, const ParallelMapping& m, int32_t stage,
                      const MemoryLedger& use) {
  return WholeBytes(m.dual()
                        ? ChunkStash(model, m, stage, 0)
                        : AsDouble(use.activations.count()) / AsDouble(ChunksInFlight(m, stage)));
}

// While the embedding's gradient is made, its pass has nothing else left.
MemoryLedger AtEmbedding(const ModelLayers& model, const ParallelMapping& m, int32_t stage,
                         MemoryLedger use, Bytes gradient) {
  use.activations = use.activations - PassActivations(model, m, stage, use);
  use.recomputed = Bytes();
  use.gathered += gradient;
  return use;
}

// Whether the embedding's gradient may outweigh what its pass has beside it, by sizes alone.
bool EmbeddingMayMatter(const TransformerConfig& c, const ParallelMapping& m, int32_t stage,
                        const MemoryLedger& use) {
  if (!HasEmbedding(m, stage)) return false;
  constexpr double kSmall = 8;  // rows of segments and norms, and what rounding adds
  const double rows =
      AsDouble(c.vocabulary) / m.tensor + AsDouble(std::max(c.positions, c.sequence)) + kSmall;
  const double gone =
      m.dual() ? 0 : AsDouble(use.activations.count()) / AsDouble(ChunksInFlight(m, stage));
  return AsDouble(ElementSize(c.dtype)) * rows * AsDouble(c.hidden) > gone;
}

}  // namespace

bool HasShardedMasters(const TransformerConfig& c, const ParallelMapping& m) {
  return c.sharded_masters && m.zero >= 3 && m.lora == 0 && !m.offload;
}

MemoryLedger StageMemoryAt(StageMoment moment, const ModelLayers& model, const ParallelMapping& m,
                           int32_t stage) {
  const auto of = [&](const TransformerConfig& kind, const ParallelMapping& mapping,
                      const MappedLayer& layer) {
    return DeviceMemoryOf(moment, kind, mapping, stage, layer);
  };
  MemoryLedger use = OfAllKinds(model, m, stage, of);
  if (m.dual()) {
    use.activations = WholeBytes(DualStash(model, m, stage));
  } else if (m.recomputes_some()) {
    use.activations =
        WholeBytes(AsDouble(ChunksInFlight(m, stage)) * ChunkStash(model, m, stage, 0));
  }
  for (const Bytes placeholder : PlaceholdersOf(model, m, stage)) use.gradients += placeholder;
  return use;
}

std::vector<Bytes> PlaceholdersOf(const ModelLayers& model, const ParallelMapping& m,
                                  int32_t stage) {
  const TransformerConfig& c = model.model();
  if (!c.gradient_placeholders || m.lora > 0 || m.zero >= 2) return {};
  const MappedLayer& main = model.main().Of(m);
  const bool head = HasHead(m, stage);
  const LayerCounts counts = StageLayersWithFurther(c, m, stage);
  std::vector<WeightShape> shapes;
  const auto add = [&](const std::vector<WeightShape>& more) {
    for (const WeightShape& s : more) {
      if (std::ranges::find(shapes, s) == shapes.end()) shapes.push_back(s);
    }
  };
  if (head && m.trains_ends()) add(main.head_shapes());
  for (size_t kind = 0; kind < model.kinds(); ++kind) {
    if (counts[kind] > 0) add(model.kind(kind).Of(MappingOfKind(m, kind)).trained_shapes());
  }
  std::vector<Bytes> sizes;
  for (const auto& [rows, columns] : shapes) {
    sizes.emplace_back(SaturatingProduct({rows, columns, ElementSize(c.dtype)}));
  }
  return sizes;
}

Bytes EmbeddingGradientOf(const ModelLayers& model, const ParallelMapping& m, int32_t stage) {
  if (m.zero >= 3 || m.lora > 0 || !HasEmbedding(m, stage) || !m.trains_ends()) return {};
  return WholeBytes(AsDouble(ElementSize(model.model().dtype)) * model.main().Of(m).embedding());
}

MemoryLedger StageMemoryOf(const ModelLayers& model, const ParallelMapping& m, int32_t stage) {
  const TransformerConfig& c = model.model();
  const MemoryLedger layers = StageMemoryAt(StageMoment::kLayers, model, m, stage);
  MemoryLedger most = layers;
  const auto at = [&](const MemoryLedger& use) {
    if (use.total() > most.total()) most = use;
  };
  if (HasHead(m, stage)) at(StageMemoryAt(StageMoment::kLoss, model, m, stage));
  if (HasShardedMasters(c, m)) {
    MemoryLedger root = StageMemoryAt(StageMoment::kRoot, model, m, stage);
    root.activations = root.activations - PassActivations(model, m, stage, root);
    at(root);
  }
  if (!EmbeddingMayMatter(c, m, stage, layers)) return most;
  const Bytes gradient = EmbeddingGradientOf(model, m, stage);
  if (gradient > Bytes()) at(AtEmbedding(model, m, stage, layers, gradient));
  return most;
}

MemoryLedger StageMemoryOf(const TransformerConfig& c, const ParallelMapping& m, int32_t stage) {
  return StageMemoryOf(ModelLayers(c), m, stage);
}

MemoryLedger HostMemoryOf(const TransformerConfig& c, const ParallelMapping& m, int32_t stage) {
  const auto of = [stage](const TransformerConfig& kind, const ParallelMapping& mapping,
                          const MappedLayer& layer) {
    return OnHost(mapping, StatesOf(kind, mapping, stage, layer));
  };
  const ModelLayers model(c);
  MemoryLedger host = OfAllKinds(model, m, stage, of);
  if (m.inputs_on_host) {
    ParallelMapping on_device = m;
    on_device.inputs_on_host = false;
    // What layers that are not recomputed keep stays on the device.
    const auto kept = [&](const ParallelMapping& mapping) {
      return StageMemoryAt(StageMoment::kLayers, model, mapping, stage).activations;
    };
    host.activations = kept(on_device) - kept(m);
  }
  return host;
}

MemoryLedger MemoryOf(const TransformerConfig& c, const ParallelMapping& m) {
  return MemoryOf(ModelLayers(c), m);
}

std::vector<int32_t> StagesThatMayBeFullest(const TransformerConfig& model,
                                            const ParallelMapping& m) {
  std::vector<int32_t> stages;
  const bool alike =
      LayerKinds(model) == 1 && m.layers.empty() && m.last_layers == 0 && !m.dual() && !m.returns();
  // Equal stages between the ends have no logits, and less in flight the later they are: less than
  // the first, which has as many layers unless the ends are counted as such.
  const int32_t equal = m.counted_ends ? 2 : 1;
  // DualPipe's stages of the second half have what those of the first have.
  for (int32_t s = 0; s < (m.dual() ? m.pipeline / 2 : m.pipeline); ++s) {
    if (alike && s >= equal && s + 1 < m.pipeline) continue;
    stages.push_back(s);
  }
  return stages;
}

MemoryLedger MemoryOf(const ModelLayers& model, const ParallelMapping& m) {
  MemoryLedger most;
  for (const int32_t s : StagesThatMayBeFullest(model.model(), m)) {
    const MemoryLedger use = StageMemoryOf(model, m, s);
    if (s == 0 || use.total() > most.total()) most = use;
  }
  return most;
}

}  // namespace foretrace
