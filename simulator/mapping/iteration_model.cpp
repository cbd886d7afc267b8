#include "simulator/mapping/iteration_model.h"

#include <algorithm>
#include <utility>

#include "simulator/base/status_macros.h"
#include "simulator/mapping/mixed_layers.h"
#include "simulator/mapping/trained_flop.h"
#include "simulator/plan/folded_timing.h"

namespace foretrace {
namespace {

bool SplitsBackward(const ParallelMapping& m) {
  return m.chunks == 1 && m.schedule == ScheduleKind::kZeroBubbleH1;
}

SchedulePeriod PeriodOf(const ParallelMapping& m) {
  SchedulePeriod period;
  period.periodic = m.schedule == ScheduleKind::k1F1B || m.schedule == ScheduleKind::kKFKB;
  period.microbatches = m.chunks > 1 ? m.pipeline : m.schedule == ScheduleKind::kKFKB ? m.k : 1;
  period.passes = 2 * period.microbatches * m.chunks;
  for (int32_t s = 0; s < m.pipeline; ++s) {
    // Interleaved schedules begin to alternate with a forward pass, the others with a backward one.
    period.warmup.push_back(ChunksInFlight(m, s) - (m.chunks > 1 ? 1 : 0));
  }
  return period;
}

// Which of the model's layers the backward pass of a chunk ends with.
int64_t FirstTrained(const TransformerConfig& model, const ParallelMapping& m, int32_t stage,
                     int32_t chunk) {
  return FirstLayer(model, m, stage, chunk) + LayersOf(model, m, stage, chunk) -
         TrainedLayersOf(model, m, stage, chunk);
}

// When a stage's gradients are reduced. Reductions start as each layer's gradient is there, in the
// order of the backward pass, one at a time.
SimTime OverlappedReductionEnd(const TransformerConfig& model, const ParallelMapping& m,
                               const PassTimes& passes, int32_t index, const TimedStage& stage,
                               const std::vector<SimTime>& starts) {
  const PassKind kind = SplitsBackward(m) ? PassKind::kBackwardWeight : PassKind::kBackward;
  const int32_t last = m.microbatches() - 1;
  const int64_t parts = StageTrainedLayers(model, m, index);
  SimTime end;
  int64_t part = 0;
  for (size_t i = 0; i < stage.passes.size(); ++i) {
    const Pass& pass = stage.passes[i];
    if (pass.kind != kind || pass.microbatch != last) continue;
    SimTime at = starts[i];
    if (index + 1 == m.pipeline && kind == PassKind::kBackward && pass.chunk + 1 == m.chunks) {
      at += passes.head_backward;
    }
    const int64_t layers = TrainedLayersOf(model, m, index, pass.chunk);
    const int64_t first = FirstTrained(model, m, index, pass.chunk);
    for (int64_t layer = 0; layer < layers; ++layer, ++part) {
      const PassTimes& own = TimesOf(model, first + layers - 1 - layer, passes);
      at += kind == PassKind::kBackward ? own.layer_backward : own.layer_weight;
      end = std::max(end, at) + ReductionPart(passes.gradient_reduction, parts, part) +
            ReductionPart(passes.expert_reduction, parts, part);
    }
  }
  return end;
}

// Of one micro-batch's passes on the first stage, the time in which its devices only communicate:
// what is left of them without kernels, whichever exchanges they wait for.
SimTime ExposedInPasses(const TransformerConfig& model, const ParallelMapping& m,
                        const PassTimes& passes, const TimedStage& stage) {
  SimTime exposed;
  for (const auto* durations : {&stage.forward, &stage.backward, &stage.backward_weight}) {
    for (const SimTime duration : *durations) exposed += duration;
  }
  const auto kernels = [&](const PassTimes& of, int64_t layers) {
    const SimTime layer = of.layer_forward + of.layer_backward - of.LayerExchanges();
    exposed -= SimTime::FromPs(layer.ps() * layers);
  };
  const int64_t dense = passes.dense != nullptr ? StageDenseLayers(model, m, 0) : 0;
  kernels(passes, StageLayers(model, m, 0) - dense);
  if (dense > 0) kernels(*passes.dense, dense);
  for (int64_t i = 0; i < FrozenLayers(model, m); ++i) {
    const PassTimes& own = TimesOf(model, i, passes);
    exposed += own.layer_backward - own.Exchanges(false) - own.waited_backward;
  }
  exposed -= passes.embedding_forward + passes.embedding_backward;
  exposed += passes.embedding_exchanges.Sum(true) + passes.embedding_exchanges.Sum(false);
  if (m.pipeline > 1) return exposed;
  exposed -= passes.head_forward + passes.head_backward;
  return exposed + passes.head_exchanges.Sum(true) + passes.head_exchanges.Sum(false);
}

}  // namespace

SimTime PassDuration(SimTime layer, int64_t layers, SimTime gather, SimTime reduce) {
  if (layers == 0) return SimTime();
  if (layers == 1) return gather + layer + reduce;
  // At a layer's start the link reduces what the layer before left, then gathers for the next.
  return gather + std::max(layer, gather) +
         SimTime::FromPs(std::max(layer, gather + reduce).ps() * (layers - 2)) +
         std::max(layer, reduce) + reduce;
}

SimTime PassDuration(absl::Span<const LayerPass> layers) {
  if (layers.empty()) return SimTime();
  SimTime start = layers.front().gather, link, behind;
  const bool gathers = std::any_of(layers.begin(), layers.end(),
                                   [](const LayerPass& l) { return l.gather > SimTime(); });
  for (size_t i = 0; i < layers.size(); ++i) {
    start += layers[i].layer;
    if (gathers) {
      // What the link does meanwhile, which the next layer waits for.
      const SimTime next = i + 1 < layers.size() ? layers[i + 1].gather : SimTime();
      start = std::max(start, start - layers[i].layer + behind + next);
      behind = layers[i].reduce;
    } else {
      link = std::max(link, start) + layers[i].reduce;
    }
  }
  return gathers ? start + behind : std::max(start, link);
}

bool ReducesByLayer(const ParallelMapping& m) { return m.overlap_gradients && m.zero < 2; }

SimTime ReductionPart(SimTime reduction, int64_t layers, int64_t index) {
  const int64_t part = reduction.ps() / layers;
  return SimTime::FromPs(index + 1 < layers ? part : reduction.ps() - part * (layers - 1));
}

namespace {

// A pass of a chunk's layers, without what is split off of the backward one.
SimTime ChunkDuration(const TransformerConfig& model, const ParallelMapping& m, int32_t stage,
                      int32_t chunk, bool forward, const PassTimes& passes) {
  const int64_t layers =
      forward ? LayersOf(model, m, stage, chunk) : TrainedLayersOf(model, m, stage, chunk);
  const bool split = !forward && SplitsBackward(m);
  if (passes.dense == nullptr) {
    if (forward) return PassDuration(passes.layer_forward, layers, passes.Gather());
    const SimTime weight = split ? passes.layer_weight : SimTime();
    return PassDuration(passes.layer_backward - weight, layers, passes.Gather(),
                        passes.reduce_behind);
  }
  const int64_t first =
      forward ? FirstLayer(model, m, stage, chunk) : FirstTrained(model, m, stage, chunk);
  std::vector<LayerPass> each = LayersOfPass(model, first, layers, forward, passes);
  for (int64_t i = 0; split && i < layers; ++i) {
    each[static_cast<size_t>(i)].layer -=
        TimesOf(model, first + layers - 1 - i, passes).layer_weight;
  }
  return PassDuration(each);
}

}  // namespace

absl::StatusOr<TimedPipeline> PipelineOf(const TransformerConfig& model, const ParallelMapping& m,
                                         const PassTimes& passes) {
  TimedPipeline pipeline;
  pipeline.mini_batch = m.microbatches();  // in micro-batches
  const bool split = SplitsBackward(m);
  const auto chunks = static_cast<size_t>(m.chunks);
  // A stage is held until its neighbour has what it sent.
  const bool holds = m.chunks == 1 ? passes.blocking_transfers : passes.blocking_chunks;
  const SimTime beside = holds ? SimTime() : passes.transfer;
  std::vector<PassList> zero_bubble;
  if (split) zero_bubble = ZeroBubbleH1Schedule(pipeline.mini_batch, m.pipeline);
  for (int32_t s = 0; s < m.pipeline; ++s) {
    TimedStage stage;
    if (split) {
      stage.passes = std::move(zero_bubble[static_cast<size_t>(s)]);
      SimTime weight;
      const int64_t first = FirstTrained(model, m, s, 0);
      for (int64_t i = 0; i < TrainedLayersOf(model, m, s, 0); ++i) {
        weight += TimesOf(model, first + i, passes).layer_weight;
      }
      stage.backward_weight.assign(chunks, weight);
    } else {
      FORETRACE_ASSIGN_OR_RETURN(stage.passes, StagePasses(m, s));
    }
    for (int32_t c = 0; c < m.chunks; ++c) {
      stage.forward.push_back(ChunkDuration(model, m, s, c, true, passes));
      stage.backward.push_back(ChunkDuration(model, m, s, c, false, passes));
      stage.forward.back() += passes.scale_reduction;
      stage.backward.back() += passes.scale_reduction;
      const bool ends = s + 1 == m.pipeline && c + 1 == m.chunks, begins = s == 0 && c == 0;
      if (holds && m.pipeline > 1 && !ends) stage.forward.back() += passes.transfer;
      if (holds && m.pipeline > 1 && !begins) stage.backward.back() += passes.transfer;
      if (s > 0) pipeline.edges.push_back({s - 1, c, s, c, beside, beside});
      if (s == 0 && c > 0) {
        pipeline.edges.push_back({m.pipeline - 1, c - 1, 0, c, beside, beside});
      }
    }
    pipeline.stages.push_back(std::move(stage));
  }
  const auto add = [](TimedStage& stage, size_t chunk, const RootExchange& root) {
    stage.forward[chunk] += root.gather;
    stage.backward[chunk] += root.reduce;
  };
  TimedStage &first = pipeline.stages.front(), &last = pipeline.stages.back();
  first.forward.front() += passes.embedding_forward;
  first.backward.front() += passes.embedding_backward;
  add(first, 0, passes.first_root);
  last.forward.back() += passes.head_forward;
  last.backward.back() += passes.head_backward;
  add(last, chunks - 1, passes.last_root);
  return pipeline;
}

absl::StatusOr<IterationEstimate> EstimateIteration(
    const TransformerConfig& model, const ParallelMapping& mapping,
    const ClusterParameters& cluster, const std::shared_ptr<const ModelGraph>& graph) {
  IterationEstimate out;
  FORETRACE_ASSIGN_OR_RETURN(out.passes, TimePasses(model, mapping, cluster, graph));
  ParallelMapping simulated = mapping;
  const auto make = [&](int32_t count) {
    simulated.global_batch = count * mapping.data * mapping.micro_batch;
    return PipelineOf(model, simulated, out.passes);
  };
  FORETRACE_ASSIGN_OR_RETURN(const FoldedTiming folded,
                             TimeFolded(make, PeriodOf(mapping), mapping.microbatches()));
  out.pipeline = folded.end();
  SimTime first_reduction;
  std::vector<SimTime> reduced;  // by stage
  double busy = 0;
  for (size_t s = 0; s < folded.pipeline.stages.size(); ++s) {
    const SimTime after = out.passes.gradient_reduction + out.passes.expert_reduction;
    SimTime end = folded.timing.stage_end[s] + after;
    if (ReducesByLayer(mapping) && after > SimTime()) {
      end =
          std::max(folded.timing.stage_end[s],
                   OverlappedReductionEnd(model, simulated, out.passes, static_cast<int32_t>(s),
                                          folded.pipeline.stages[s], folded.timing.pass_start[s]));
    }
    if (s == 0) first_reduction = end - folded.timing.stage_end[0];
    reduced.push_back(end + folded.shift);
    busy += folded.timing.stage_busy[s].seconds() / folded.simulated * mapping.microbatches();
  }
  if (out.passes.tied_reduction > SimTime()) {
    const SimTime both = std::max(reduced.front(), reduced.back()) + out.passes.tied_reduction;
    first_reduction += both - reduced.front();
    reduced.front() = reduced.back() = both;
  }
  out.time = *std::max_element(reduced.begin(), reduced.end()) + out.passes.optimizer;
  out.loading = SimTime::FromPs(cluster.token_preparation.ps() * model.sequence *
                                (mapping.global_batch / mapping.data));
  out.time = std::max(out.time, out.loading);
  out.bubble = std::max(0.0, 1 - busy / (out.pipeline.seconds() * mapping.pipeline));
  const SimTime in_passes =
      ExposedInPasses(model, mapping, out.passes, folded.pipeline.stages.front());
  out.exposed_communication =
      (in_passes.seconds() * mapping.microbatches() + first_reduction.seconds()) /
      out.time.seconds();
  out.model_flop_utilisation =
      ModelFlopUtilisation(Flop(TrainedFlopOf(model, mapping).count() * mapping.global_batch),
                           out.time, cluster.peak, mapping.devices());
  return out;
}

double ModelFlopUtilisation(Flop of_iteration, SimTime iteration, FlopRate peak, int64_t devices) {
  return of_iteration.count() /
         (iteration.seconds() * peak.per_second() * static_cast<double>(devices));
}

}  // namespace foretrace
