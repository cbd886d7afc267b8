#include "simulator/mapping/chunk_stash.h"

#include <algorithm>
#include <array>

#include "simulator/base/real_sizes.h"
#include "simulator/mapping/kept_activations.h"
#include "simulator/mapping/kept_inputs.h"
#include "simulator/mapping/mapped_layer.h"
#include "simulator/mapping/mixed_layers.h"
#include "simulator/mapping/model_layers.h"

namespace foretrace {
namespace {

// What the device has of an input that layers are recomputed from.
double InputKept(const Stash& stash, const ParallelMapping& m) {
  return m.inputs_on_host ? 0 : AsDouble(stash.input.count()) / m.input_parts();
}

}  // namespace

double StashOf(const MappedLayer& layer, const ParallelMapping& m, Recompute recompute,
               const TransformerConfig& c) {
  const bool parts = RecomputesParts(recompute);
  if (m.keeps_eight || parts) return KeptBytes(layer, m, recompute);
  const Stash& stash = layer.stash();
  if (recompute == Recompute::kFull) return InputKept(stash, m);
  const double whole = AsDouble(stash.whole.count()) + KeptSingly(layer, c.eager, c.repeats_keys);
  if (recompute == Recompute::kAlternate) return (whole + AsDouble(stash.input.count())) / 2;
  if (recompute == Recompute::kOperators) {
    const AlternateGemms gemms = EverySecondGemm(layer.graph(), layer.sizes());
    const Bytes kept = c.eager ? gemms.outputs : gemms.needed;
    return AsDouble((stash.input + stash.fused + kept).count());
  }
  if (recompute != Recompute::kSelective) return whole;
  // Copies of keys and values are made again with the core that reads them.
  return AsDouble((stash.whole - stash.attention).count()) + KeptSingly(layer, c.eager, false);
}

namespace {

// Where some layers are recomputed: of a chunk, or, -1, of the stage's in the mean.
double MixedStash(const ModelLayers& model, const ParallelMapping& m, int32_t stage,
                  int32_t chunk) {
  const TransformerConfig& c = model.model();
  const auto whole = [&](const LayersOfKind& kind, const ParallelMapping& mapping) {
    return StashOf(kind.Of(mapping), m, Recompute::kNone, c);
  };
  const double input = InputKept(model.main().Of(m).stash(), m);
  std::array<double, kMostLayerKinds> kept = {};
  for (size_t kind = 0; kind < model.kinds(); ++kind) {
    kept[kind] = whole(model.kind(kind), MappingOfKind(m, kind));
  }
  double bytes = 0;
  for (int32_t own = std::max(chunk, 0); own < (chunk < 0 ? m.held_chunks() : chunk + 1); ++own) {
    const int64_t trained = TrainedLayersOf(c, m, stage, own);
    const int64_t first = FirstLayer(c, m, stage, own) + LayersOf(c, m, stage, own) - trained;
    if (model.kinds() == 1) {
      const int64_t again = LayersAgain(c, m, stage, own);
      bytes += input * AsDouble(again) + kept[0] * AsDouble(trained - again);
    }
    for (int64_t i = 0; i < trained && model.kinds() > 1; ++i) {
      bytes += RunsAgain(c, m, stage, own, i) ? input : kept[LayerKindOf(c, first + i)];
    }
    for (size_t kind = 0; HasHead(m, stage, own) && kind < model.kinds(); ++kind) {
      bytes += kept[kind] * AsDouble(FurtherLayersOfKind(c, kind));
    }
  }
  return chunk < 0 ? bytes / m.chunks : bytes;
}

}  // namespace

double ChunkStash(const ModelLayers& model, const ParallelMapping& m, int32_t stage,
                  int32_t chunk) {
  const TransformerConfig& c = model.model();
  const auto of = [&](const LayersOfKind& kind, const ParallelMapping& mapping, int64_t layers) {
    return layers > 0 ? AsDouble(layers) * StashOf(kind.Of(mapping), m, m.recompute, c) : 0;
  };
  const bool own = m.dual(), head = own ? HasHead(m, stage, chunk) : HasHead(m, stage);
  if (m.recomputes_some()) return MixedStash(model, m, stage, own ? chunk : -1);
  const int64_t layers = (own ? LayersOf(c, m, stage, chunk) : StageTrainedLayers(c, m, stage)) +
                         (head ? FurtherLayers(c) : 0);
  if (m.recompute == Recompute::kFull) {
    const double inputs =
        own ? AsDouble(InputsOf(c, m, stage, chunk) + (head ? FurtherLayers(c) : 0))
            : MeanInputs(c, m, stage);
    return inputs * InputKept(model.main().Of(m).stash(), m);
  }
  const LayerCounts counts =
      own ? LayersByKind(c, m, stage, chunk) : StageLayersByKind(c, m, stage);
  double stash = 0;
  int64_t main = layers;
  for (size_t kind = 1; kind < model.kinds(); ++kind) {
    const int64_t own_kind = counts[kind] + (head ? FurtherLayersOfKind(c, kind) : 0);
    stash += of(model.kind(kind), MappingOfKind(m, kind), own_kind);
    main -= own_kind;
  }
  stash += of(model.main(), m, main);
  return own ? stash : stash / m.chunks;
}

double LayerStash(const TransformerConfig& c, const ParallelMapping& m, Recompute recompute) {
  return StashOf(MappedLayer(c, m), m, recompute, c);
}

double DualStash(const ModelLayers& model, const ParallelMapping& m, int32_t stage) {
  const double of[] = {ChunkStash(model, m, stage, 0), ChunkStash(model, m, stage, 1)};
  double held = 0, most = 0;
  for (const Pass& p : FewestPairs(m, stage)) {
    if (p.kind == PassKind::kForward) held += of[p.chunk];
    if (p.kind == PassKind::kBackward || p.kind == PassKind::kBackwardWeight) held -= of[p.chunk];
    most = std::max(most, held);
  }
  return most;
}

}  // namespace foretrace
