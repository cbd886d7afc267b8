#include "simulator/mapping/kept_inputs.h"

#include <algorithm>

#include "simulator/mapping/mapped_line.h"
#include "simulator/mapping/mixed_layers.h"

namespace foretrace {

int64_t InputsOf(const TransformerConfig& model, const ParallelMapping& m, int32_t stage,
                 int32_t chunk) {
  const int64_t layers = TrainedLayersOf(model, m, stage, chunk), together = m.layers_an_input();
  return (layers + together - 1) / together;
}

double MeanInputs(const TransformerConfig& model, const ParallelMapping& m, int32_t stage) {
  int64_t inputs = HasHead(m, stage) ? model.further_tokens : 0;
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

KeptTimes KeptInPass(const TransformerConfig& model, const ParallelMapping& m, ChunkPass pass,
                     int64_t index, const PassTimes& times) {
  if (!times.Kept(pass.forward).any()) return {};
  const int64_t all = LayersOf(model, m, pass.stage, pass.chunk);
  const int64_t trained = TrainedLayersOf(model, m, pass.stage, pass.chunk);
  const int64_t together = m.layers_an_input();
  // Counted from the first layer that has a backward pass.
  const int64_t layer = pass.forward ? index - (all - trained) : trained - 1 - index;
  if (layer < 0) return {};
  const int64_t first = layer - layer % together, end = std::min(first + together, trained);
  if (layer != (pass.forward ? first : end - 1)) return {};
  const int64_t from = FirstTrained(model, m, pass.stage, pass.chunk);
  SimTime hidden;
  for (int64_t i = first; i < end; ++i) {
    hidden += TimesOf(model, from + i, times).Kept(pass.forward).room;
  }
  const KeptInput& input = TimesOf(model, from + layer, times).Kept(pass.forward);
  return {&input, input.Exposed(hidden)};
}

SimTime KernelsOfInputs(const TransformerConfig& model, const ParallelMapping& m, ChunkPass pass,
                        const PassTimes& times) {
  const SimTime each = times.Kept(pass.forward).kernels;
  return SimTime::FromPs(each.ps() * InputsOf(model, m, pass.stage, pass.chunk));
}

}  // namespace foretrace
