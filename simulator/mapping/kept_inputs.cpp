#include "simulator/mapping/kept_inputs.h"

#include <algorithm>

#include "simulator/base/error.h"
#include "simulator/mapping/mapped_line.h"
#include "simulator/mapping/mixed_layers.h"

namespace foretrace {
namespace {

// Of a stage's layers with a backward pass, those in chunks before.
int64_t Before(const TransformerConfig& model, const ParallelMapping& m, int32_t stage,
               int32_t chunk) {
  int64_t before = 0;
  for (int32_t c = 0; c < chunk; ++c) before += TrainedLayersOf(model, m, stage, c);
  return before;
}

}  // namespace

bool RunsAgain(const TransformerConfig& model, const ParallelMapping& m, int32_t stage,
               int32_t chunk, int64_t index) {
  if (m.recompute != Recompute::kFull) return false;
  if (m.recomputed_every > 0) {
    return (Before(model, m, stage, chunk) + index + 1) % m.recomputed_every == 0;
  }
  return m.recomputed_layers < 0 || index < m.recomputed_layers;
}

int64_t LayersAgain(const TransformerConfig& model, const ParallelMapping& m, int32_t stage,
                    int32_t chunk) {
  const int64_t trained = TrainedLayersOf(model, m, stage, chunk);
  if (m.recompute != Recompute::kFull) return 0;
  if (m.recomputed_every > 0) {
    const int64_t before = Before(model, m, stage, chunk);
    return (before + trained) / m.recomputed_every - before / m.recomputed_every;
  }
  return m.recomputed_layers < 0 ? trained : std::min<int64_t>(trained, m.recomputed_layers);
}

int64_t StageLayersAgain(const TransformerConfig& model, const ParallelMapping& m, int32_t stage) {
  int64_t layers = 0;
  for (int32_t c = 0; c < m.held_chunks(); ++c) layers += LayersAgain(model, m, stage, c);
  return layers;
}

ParallelMapping WithoutRecomputation(ParallelMapping m) {
  m.recompute = Recompute::kNone;
  m.recomputed_layers = -1;
  m.recomputed_every = m.recomputed_together = 0;
  m.divided_inputs = m.inputs_on_host = false;
  return m;
}

int64_t InputsOf(const TransformerConfig& model, const ParallelMapping& m, int32_t stage,
                 int32_t chunk) {
  if (m.recomputes_some()) return LayersAgain(model, m, stage, chunk);
  const int64_t layers = TrainedLayersOf(model, m, stage, chunk), together = m.layers_an_input();
  return (layers + together - 1) / together;
}

double MeanInputs(const TransformerConfig& model, const ParallelMapping& m, int32_t stage) {
  int64_t inputs = HasHead(m, stage) && !m.recomputes_some() ? FurtherLayers(model) : 0;
  for (int32_t c = 0; c < m.held_chunks(); ++c) inputs += InputsOf(model, m, stage, c);
  return static_cast<double>(inputs) / m.chunks;
}

int64_t MostTrainedLayers(const TransformerConfig& model, const ParallelMapping& m, int32_t stage) {
  int64_t most = 1;
  for (int32_t c = 0; c < m.held_chunks(); ++c) {
    most = std::max(most, TrainedLayersOf(model, m, stage, c));
  }
  return most;
}

absl::Status CheckKeptInputs(const TransformerConfig& model, const ParallelMapping& m) {
  const bool said = m.recomputed_together > 0 || m.divided_inputs || m.inputs_on_host;
  if ((said || m.recomputes_some()) && m.recompute != Recompute::kFull) {
    return Infeasible(
        "mapping {}: blockN, everyN, uniformN, partition-activations and offload-activations are "
        "about layers that are recomputed whole, and their inputs; full would do",
        ToString(m));
  }
  const bool blocks = m.recomputed_layers >= 0, every = m.recomputed_every > 0;
  if (int{blocks} + int{every} + int{m.recomputed_together > 0} > 1) {
    return Infeasible(
        "mapping {}: blockN, everyN and uniformN are three ways to choose the layers that are "
        "recomputed; say one",
        ToString(m));
  }
  if (m.divided_inputs && (m.tensor == 1 || m.sequence_parallel)) {
    return Infeasible(
        "mapping {}: partition-activations divides what all devices of a tensor-parallel group "
        "have; {}",
        ToString(m), m.tensor == 1 ? "tp1 has no such group" : "with sp each has its own part");
  }
  int64_t most = 1;
  for (int32_t s = 0; s < m.pipeline; ++s) most = std::max(most, MostTrainedLayers(model, m, s));
  const auto more = [&](const char* word, int32_t layers) {
    return Infeasible(
        "mapping {}: {}{} is more than the {} trained layers that a chunk has at most; "
        "{}{} or less would do",
        ToString(m), word, layers, most, word, most);
  };
  if (m.recomputed_together > most) return more("uniform", m.recomputed_together);
  if (m.recomputed_layers > most) return more("block", m.recomputed_layers);
  return absl::OkStatus();
}

KeptTimes KeptInPass(const TransformerConfig& model, const ParallelMapping& m, ChunkPass pass,
                     int64_t index, const PassTimes& times) {
  if (!times.Kept(pass.forward).any()) return {};
  const int64_t all = LayersOf(model, m, pass.stage, pass.chunk);
  const int64_t trained = TrainedLayersOf(model, m, pass.stage, pass.chunk);
  const int64_t together = m.layers_an_input();
  // Counted from the first layer that has a backward pass.
  const int64_t layer = pass.forward ? index - (all - trained) : trained - 1 - index;
  if (layer < 0 || !RunsAgain(model, m, pass.stage, pass.chunk, layer)) return {};
  const int64_t first = layer - layer % together, end = std::min(first + together, trained);
  if (layer != (pass.forward ? first : end - 1)) return {};
  const auto kept = [&](int64_t i) -> const KeptInput& {
    return TimesOf(model, m, pass.stage, pass.chunk, all - trained + i, times).Kept(pass.forward);
  };
  SimTime hidden;
  for (int64_t i = first; i < end; ++i) hidden += kept(i).room;
  const KeptInput& input = kept(layer);
  return {&input, input.Exposed(hidden)};
}

SimTime KernelsOfInputs(const TransformerConfig& model, const ParallelMapping& m, ChunkPass pass,
                        const PassTimes& times) {
  const SimTime each = times.Kept(pass.forward).kernels;
  return SimTime::FromPs(each.ps() * InputsOf(model, m, pass.stage, pass.chunk));
}

}  // namespace foretrace
