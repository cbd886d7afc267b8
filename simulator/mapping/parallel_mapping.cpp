#include "simulator/mapping/parallel_mapping.h"

#include <algorithm>
#include <utility>

namespace foretrace {

int64_t FrozenLayers(const TransformerConfig& model, const ParallelMapping& m) {
  return m.last_layers > 0 ? model.layers - m.last_layers : 0;
}

int64_t TrainedLayersOf(const TransformerConfig& model, const ParallelMapping& m, int32_t stage,
                        int32_t chunk) {
  const bool first = stage == 0 && chunk == 0;
  return LayersOf(model, m, stage, chunk) - (first ? FrozenLayers(model, m) : 0);
}

int64_t StageTrainedLayers(const TransformerConfig& model, const ParallelMapping& m,
                           int32_t stage) {
  return StageLayers(model, m, stage) - (stage == 0 ? FrozenLayers(model, m) : 0);
}

int32_t ModelChunk(const ParallelMapping& m, int32_t stage, int32_t chunk) {
  if (m.dual() && chunk == 1) return m.pipeline - 1 - stage;
  if (m.returns() && chunk == 1) return 2 * m.pipeline - 1 - stage;
  return chunk * m.pipeline + stage;
}

bool HasEmbedding(const ParallelMapping& m, int32_t stage, int32_t chunk) {
  return ModelChunk(m, stage, chunk) == 0;
}

bool HasHead(const ParallelMapping& m, int32_t stage, int32_t chunk) {
  return ModelChunk(m, stage, chunk) + 1 == m.pipeline * m.chunks;
}

bool HasEmbedding(const ParallelMapping& m, int32_t stage) {
  return stage == 0 || (m.dual() && stage + 1 == m.pipeline);
}

bool HasHead(const ParallelMapping& m, int32_t stage) {
  if (m.returns()) return stage == 0;
  return stage + 1 == m.pipeline || (m.dual() && stage == 0);
}

namespace {

// Of a chunk of the model.
int64_t LayersOfChunk(const TransformerConfig& model, const ParallelMapping& m, int64_t index) {
  const int64_t chunks = int64_t{m.pipeline} * m.chunks;
  if (!m.layers.empty()) return m.layers[static_cast<size_t>(index)];
  if (!m.counted_ends) return model.layers / chunks;
  return (model.layers + 2) / chunks - (index == 0 ? 1 : 0) - (index + 1 == chunks ? 1 : 0);
}

}  // namespace

int64_t LayersOf(const TransformerConfig& model, const ParallelMapping& m, int32_t stage,
                 int32_t chunk) {
  return LayersOfChunk(model, m, ModelChunk(m, stage, chunk));
}

int64_t StageLayers(const TransformerConfig& model, const ParallelMapping& m, int32_t stage) {
  int64_t layers = 0;
  for (int32_t c = 0; c < m.held_chunks(); ++c) layers += LayersOf(model, m, stage, c);
  return layers;
}

int64_t FirstLayer(const TransformerConfig& model, const ParallelMapping& m, int32_t stage,
                   int32_t chunk) {
  int64_t first = 0;
  for (int32_t i = 0; i < ModelChunk(m, stage, chunk); ++i) first += LayersOfChunk(model, m, i);
  return first;
}

LayerCounts LayersByKind(const TransformerConfig& model, const ParallelMapping& m, int32_t stage,
                         int32_t chunk) {
  LayerCounts layers = {};
  const int64_t first = FirstLayer(model, m, stage, chunk);
  const int64_t count = LayersOf(model, m, stage, chunk);
  if (LayerKinds(model) == 1) {
    layers[0] = count;
    return layers;
  }
  for (int64_t i = first; i < first + count; ++i) ++layers[LayerKindOf(model, i)];
  return layers;
}

LayerCounts StageLayersByKind(const TransformerConfig& model, const ParallelMapping& m,
                              int32_t stage) {
  LayerCounts layers = {};
  for (int32_t c = 0; c < m.held_chunks(); ++c) {
    const LayerCounts more = LayersByKind(model, m, stage, c);
    for (size_t kind = 0; kind < layers.size(); ++kind) layers[kind] += more[kind];
  }
  return layers;
}

LayerCounts StageLayersWithFurther(const TransformerConfig& model, const ParallelMapping& m,
                                   int32_t stage) {
  LayerCounts layers = StageLayersByKind(model, m, stage);
  for (size_t kind = 0; HasHead(m, stage) && kind < LayerKinds(model); ++kind) {
    layers[kind] += FurtherLayersOfKind(model, kind);
  }
  return layers;
}

std::vector<int32_t> SpreadLayers(int64_t layers, int64_t chunks) {
  std::vector<int32_t> spread;
  for (int64_t i = 0; i < chunks; ++i) {
    spread.push_back(static_cast<int32_t>(layers / chunks + (i < layers % chunks ? 1 : 0)));
  }
  return spread;
}

std::vector<int32_t> ChunksByEnd(const ParallelMapping& m, int32_t stage) {
  std::vector<int32_t> chunks;
  for (int32_t c = m.held_chunks() - 1; c >= 0; --c) chunks.push_back(c);
  // Under DualPipe the direction that enters at the other half of the pipeline ends first.
  if (m.dual() && stage >= m.pipeline / 2) std::swap(chunks.front(), chunks.back());
  return chunks;
}

absl::StatusOr<PassList> StagePasses(const ParallelMapping& m, int32_t stage) {
  const int32_t count = m.microbatches();
  if (m.schedule == ScheduleKind::kDualPipeV) return DualPipeVSchedule(count, m.pipeline, stage);
  if (m.returns()) return ZeroBubbleVSchedule(count, m.pipeline, stage);
  if (m.chunks > 1 && m.zero_bubble()) {
    return InterleavedZeroBubbleSchedule(count, m.pipeline, stage, m.chunks);
  }
  if (m.chunks > 1) return InterleavedSchedule(count, m.pipeline, stage, m.chunks);
  switch (m.schedule) {
    case ScheduleKind::kGPipe:
      return GPipeSchedule(count);
    case ScheduleKind::kKFKB:
      return KFKBSchedule(count, m.k, static_cast<int32_t>(ChunksInFlight(m, stage)));
    case ScheduleKind::kZeroBubbleH1:
      return ZeroBubbleH1Schedule(count, m.pipeline)[static_cast<size_t>(stage)];
    case ScheduleKind::kDualPipe:
      return DualPipeSchedule(count, m.pipeline, stage);
    default:
      return KFKBSchedule(count, 1, std::min(count, m.pipeline - stage));
  }
}

PassList FewestPairs(const ParallelMapping& m, int32_t stage) {
  const int32_t count = 2 * m.pipeline;
  return m.dual() ? *DualPipeSchedule(count, m.pipeline, stage)
                  : *DualPipeVSchedule(count, m.pipeline, stage);
}

int64_t ChunksInFlight(const ParallelMapping& m, int32_t stage) {
  const int64_t count = m.microbatches();
  const int64_t behind = m.pipeline - stage - 1;
  if (m.paired()) return PeakInFlight(FewestPairs(m, stage));
  if (m.returns()) {
    // Beyond three micro-batches a stage more of them only repeat the steady state.
    const auto enough = static_cast<int32_t>(std::min<int64_t>(count, 3 * int64_t{m.pipeline}));
    return PeakInFlight(ZeroBubbleVSchedule(enough, m.pipeline, stage));
  }
  if (m.chunks > 1 && m.zero_bubble()) {
    // What goes forward before the first backward pass, and what waits for its weights' gradient.
    const int64_t ahead = behind + int64_t{m.chunks - 1} * m.pipeline + 1;
    return std::min(count * m.chunks, ahead + stage);
  }
  if (m.chunks > 1) {
    const int64_t total = count * m.chunks;
    return std::min(total, behind * 2 + int64_t{m.chunks - 1} * m.pipeline + 1);
  }
  switch (m.schedule) {
    case ScheduleKind::kGPipe:
      return count;
    case ScheduleKind::kKFKB:
      // Table 3.2 of GraphPipe for equal neighbours: groups of k overlap by all but two.
      return std::min(count, m.k + std::min(m.k, 2) * behind);
    case ScheduleKind::kZeroBubbleH1:
      // Weight gradients are put off, but no stage holds more than the first does under 1F1B.
      return std::min<int64_t>(count, m.pipeline);
    default:
      return std::min(count, behind + 1);
  }
}

}  // namespace foretrace
