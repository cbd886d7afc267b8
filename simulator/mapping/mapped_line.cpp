#include "simulator/mapping/mapped_line.h"

#include <algorithm>
#include <utility>

#include "simulator/base/status_macros.h"
#include "simulator/mapping/kept_inputs.h"
#include "simulator/mapping/mixed_layers.h"

namespace foretrace {

bool WaitsForMessages(const ParallelMapping& m, const PassTimes& passes) {
  if (m.paired()) return false;
  return m.chunks == 1 ? passes.blocking_transfers : passes.blocking_chunks;
}

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
  SimTime start = layers.front().gather, link, behind, copies, among_copies;
  const bool gathers = std::any_of(layers.begin(), layers.end(),
                                   [](const LayerPass& l) { return l.gather > SimTime(); });
  for (size_t i = 0; i < layers.size(); ++i) {
    start += layers[i].layer;
    if (gathers) {
      // What the link does meanwhile, which the next layer waits for.
      const SimTime next = i + 1 < layers.size() ? layers[i + 1].gather : SimTime();
      link = start - layers[i].layer + behind;
      copies = std::max(copies, link) + among_copies;
      start = std::max(start, link + next);
      behind = layers[i].reduce;
      among_copies = layers[i].copies;
    } else {
      link = std::max(link, start) + layers[i].reduce;
      copies = std::max(copies, link) + layers[i].copies;
    }
  }
  if (!gathers) return std::max({start, link, copies});
  return std::max(copies, start + behind) + among_copies;
}

bool ReducesByLayer(const ParallelMapping& m) { return m.overlap_gradients && m.zero < 2; }

SimTime ReductionPart(SimTime reduction, int64_t layers, int64_t index) {
  const int64_t part = reduction.ps() / layers;
  return SimTime::FromPs(index + 1 < layers ? part : reduction.ps() - part * (layers - 1));
}

namespace {

// Passes of chunks without what is split off of backward ones.
class ChunkDurations {
 public:
  ChunkDurations(const TransformerConfig& model, const ParallelMapping& mapping,
                 const PassTimes& passes)
      : c_(model), m_(mapping), passes_(passes) {}

  SimTime Of(int32_t stage, int32_t chunk, bool forward) {
    const int64_t layers =
        forward ? LayersOf(c_, m_, stage, chunk) : TrainedLayersOf(c_, m_, stage, chunk);
    const bool keeps = passes_.Kept(forward).any() || passes_.kept != nullptr;
    // Of layers that differ by where in the model, or in the stage, they are.
    const bool placed = !passes_.others.empty() || m_.recomputed_every > 0;
    if (placed || passes_.copies_behind > SimTime())
      return LayerByLayer({stage, chunk, forward}, layers);
    // Of layers that are alike, as many take as long.
    Known& known = known_[forward ? 0 : 1];
    const int64_t frozen = layers - TrainedLayersOf(c_, m_, stage, chunk);
    if (known.layers == layers && known.frozen == frozen) return known.duration;
    known = {layers, frozen,
             !keeps            ? Alike(forward, layers)
             : AddsUp(forward) ? Sum({stage, chunk, forward}, layers)
                               : LayerByLayer({stage, chunk, forward}, layers)};
    return known.duration;
  }

 private:
  struct Known {
    int64_t layers = -1, frozen = 0;
    SimTime duration;
  };

  SimTime Alike(bool forward, int64_t layers) const {
    if (forward) return PassDuration(passes_.layer_forward, layers, passes_.Gather(true));
    const SimTime weight = m_.zero_bubble() ? passes_.layer_weight : SimTime();
    return PassDuration(passes_.layer_backward - weight, layers, passes_.Gather(false),
                        passes_.reduce_behind);
  }

  // Whether a pass of layers of which some are recomputed is the sum of what each takes: none waits
  // for others' exchanges.
  bool AddsUp(bool forward) const {
    return passes_.kept != nullptr && !passes_.Kept(forward).any() &&
           passes_.Gather(forward) + passes_.kept->Gather(forward) + passes_.reduce_behind +
                   passes_.kept->reduce_behind ==
               SimTime();
  }
  SimTime Sum(const ChunkPass& pass, int64_t layers) const {
    const auto each = [&](const PassTimes& own, int64_t count) {
      const SimTime weight = m_.zero_bubble() ? own.layer_weight : SimTime();
      const SimTime layer = pass.forward ? own.layer_forward : own.layer_backward - weight;
      return SimTime::FromPs(layer.ps() * count);
    };
    const int64_t again = LayersAgain(c_, m_, pass.stage, pass.chunk);
    return each(passes_, again) + each(*passes_.kept, layers - again);
  }

  SimTime LayerByLayer(const ChunkPass& pass, int64_t layers) const {
    const bool forward = pass.forward;
    const int64_t last = LayersOf(c_, m_, pass.stage, pass.chunk) - 1;
    std::vector<LayerPass> each;
    for (int64_t i = 0; i < layers; ++i) {
      const int64_t index = forward ? i : last - i;
      const PassTimes& own = TimesOf(c_, m_, pass.stage, pass.chunk, index, passes_);
      SimTime layer = forward ? own.layer_forward : own.layer_backward;
      layer += KeptInPass(c_, m_, pass, i, passes_).all();
      if (!forward && m_.zero_bubble()) layer -= own.layer_weight;
      each.push_back({layer, own.Gather(forward), forward ? SimTime() : own.reduce_behind,
                      forward ? SimTime() : own.copies_behind});
    }
    return PassDuration(each);
  }

  const TransformerConfig& c_;
  const ParallelMapping& m_;
  const PassTimes& passes_;
  Known known_[2];
};

SimTime SplitOff(const TransformerConfig& model, const ParallelMapping& m, int32_t stage,
                 int32_t chunk, const PassTimes& passes) {
  SimTime weight;
  const int64_t layers = LayersOf(model, m, stage, chunk);
  for (int64_t i = layers - TrainedLayersOf(model, m, stage, chunk); i < layers; ++i) {
    weight += TimesOf(model, m, stage, chunk, i, passes).layer_weight;
  }
  return weight;
}

}  // namespace

SimTime MappedLine::OfStage(int32_t stage) const {
  SimTime sum;
  for (auto i = static_cast<size_t>(stage); i < line.forward.size();
       i += static_cast<size_t>(line.stages)) {
    sum += line.forward[i] + line.backward[i];
    if (weight_apart) sum += weight[i];
  }
  return sum;
}

namespace {

// MappedLine::split_last. A chunk's last pass but forward ones is of its last micro-batch.
std::vector<char> SplitLast(const ParallelMapping& m) {
  std::vector<char> split(static_cast<size_t>(m.held_chunks() * m.pipeline), 1);
  for (int32_t s = 0; m.paired() && s < m.pipeline; ++s) {
    for (const Pass& p : FewestPairs(m, s)) {
      const auto chunk = static_cast<size_t>(p.chunk * m.pipeline + s);
      if (p.kind != PassKind::kForward) split[chunk] = p.kind == PassKind::kBackwardWeight ? 1 : 0;
    }
  }
  return split;
}

void AddLone(const TransformerConfig& model, const ParallelMapping& m, const PassTimes& passes,
             MappedLine& out) {
  LinePipeline& line = out.line;
  const MappedLine alone = LineOf(model, m, passes);
  line.lone_forward = alone.line.forward;
  line.lone_backward = alone.line.backward;
  out.lone_last.assign(line.forward.size(), 0);
  for (int32_t s = 0; s < m.pipeline; ++s) {
    const PassList list = *StagePasses(m, s);  // of a mapping that was checked
    const std::vector<bool> lone = LonePasses(list);
    SimTime extra;
    int64_t count = 0;
    for (size_t i = 0; i < list.size(); ++i) {
      if (!lone[i]) continue;
      const auto chunk = static_cast<size_t>(list[i].chunk * m.pipeline + s);
      const bool forward = list[i].kind == PassKind::kForward;
      count += forward ? 1 : 0;
      extra += forward ? line.lone_forward[chunk] - line.forward[chunk]
                       : line.lone_backward[chunk] - line.backward[chunk];
      if (!forward && list[i].microbatch + 1 == m.chunk_microbatches()) out.lone_last[chunk] = 1;
    }
    out.lone_passes.push_back(count);
    out.lone_extra.push_back(extra);
  }
}

}  // namespace

MappedLine LineOf(const TransformerConfig& model, const ParallelMapping& m,
                  const PassTimes& passes) {
  MappedLine out;
  LinePipeline& line = out.line;
  line.stages = m.pipeline;
  line.chunks = m.held_chunks();
  line.microbatches = m.chunk_microbatches();
  line.k = m.k;
  const bool holds = WaitsForMessages(m, passes) && m.pipeline > 1;
  if (!holds) line.transfer = passes.transfer;
  ChunkDurations durations(model, m, passes);
  const bool splits = m.zero_bubble() || m.paired();
  out.weight_apart = m.zero_bubble();
  for (int32_t c = 0; c < line.chunks; ++c) {
    for (int32_t s = 0; s < m.pipeline; ++s) {
      // Where the line turns a device has what it sends itself.
      const bool turns = m.returns() && s + 1 == m.pipeline;
      const bool ends = HasHead(m, s, c), begins = HasEmbedding(m, s, c);
      SimTime forward = durations.Of(s, c, true) + passes.scale_reduction;
      SimTime backward = durations.Of(s, c, false) + passes.scale_reduction;
      if (holds && !ends && !(turns && c == 0)) forward += passes.transfer;
      if (holds && !begins && !(turns && c == 1)) backward += passes.gradient_transfer;
      if (begins) {
        forward += passes.embedding_forward + passes.first_root.gather;
        backward += passes.embedding_backward + passes.first_root.gradient.All();
      }
      if (ends) {
        forward += passes.head_forward + passes.last_root.gather;
        backward += passes.head_backward + passes.last_root.gradient.All();
      }
      line.forward.push_back(forward);
      line.backward.push_back(backward);
      if (splits) out.weight.push_back(SplitOff(model, m, s, c, passes));
    }
  }
  for (int32_t s = 0; s < m.pipeline && line.chunks == 1; ++s) {
    line.in_flight.push_back(ChunksInFlight(m, s));
  }
  if (splits) out.split_last = SplitLast(m);
  if (passes.lone != nullptr) AddLone(model, m, *passes.lone, out);
  return out;
}

namespace {

// Between chunk and chunk, in the order of the model.
std::vector<TimedEdge> EdgesOf(const ParallelMapping& m, SimTime transfer) {
  std::vector<TimedEdge> edges;
  for (int32_t s = 0; s < m.pipeline; ++s) {
    for (int32_t c = 0; c < m.held_chunks(); ++c) {
      // Back up the line; at its end a device has what it sends itself.
      if ((m.dual() || m.returns()) && c == 1) {
        if (s > 0) edges.push_back({s, c, s - 1, c, transfer, transfer});
        continue;
      }
      if (s > 0) edges.push_back({s - 1, c, s, c, transfer, transfer});
      if (s == 0 && c > 0) edges.push_back({m.pipeline - 1, c - 1, 0, c, transfer, transfer});
    }
  }
  return edges;
}

}  // namespace

absl::StatusOr<TimedPipeline> PipelineOf(const TransformerConfig& model, const ParallelMapping& m,
                                         const PassTimes& passes) {
  const MappedLine own = LineOf(model, m, passes);
  const LinePipeline& line = own.line;
  TimedPipeline pipeline;
  pipeline.mini_batch = line.microbatches;
  pipeline.edges = EdgesOf(m, line.transfer);
  std::vector<PassList> zero_bubble;
  const bool in_one = m.zero_bubble() && m.chunks == 1;  // all stages' orders at once
  if (in_one) zero_bubble = ZeroBubbleH1Schedule(pipeline.mini_batch, m.pipeline);
  for (int32_t s = 0; s < m.pipeline; ++s) {
    TimedStage stage;
    if (in_one) {
      stage.passes = std::move(zero_bubble[static_cast<size_t>(s)]);
    } else {
      FORETRACE_ASSIGN_OR_RETURN(stage.passes, StagePasses(m, s));
    }
    for (int32_t c = 0; c < line.chunks; ++c) {
      const auto chunk = static_cast<size_t>(c * m.pipeline + s);
      const bool lone = !line.lone_forward.empty();
      stage.forward.push_back(line.forward[chunk]);
      stage.backward.push_back(line.backward[chunk]);
      if (lone) {
        stage.lone_forward.push_back(line.lone_forward[chunk]);
        stage.lone_backward.push_back(line.lone_backward[chunk]);
      }
      if (!own.weight.empty()) stage.backward_weight.push_back(own.weight[chunk]);
      if (m.paired()) {
        // None of these is in a pair.
        const SimTime whole = (lone ? line.lone_backward : line.backward)[chunk];
        stage.backward_input.push_back(whole - own.weight[chunk]);
      }
    }
    pipeline.stages.push_back(std::move(stage));
  }
  return pipeline;
}

absl::StatusOr<LineTiming> TimeOf(const TransformerConfig& model, const ParallelMapping& m,
                                  const PassTimes& passes, const MappedLine& line) {
  if (line.weight.empty()) return TimeLine(line.line);
  FORETRACE_ASSIGN_OR_RETURN(const TimedPipeline pipeline, PipelineOf(model, m, passes));
  FORETRACE_ASSIGN_OR_RETURN(PipelineTiming timing, TimePipeline(pipeline));
  LineTiming out{timing.end, std::move(timing.stage_end), {}};
  for (int32_t c = 0; c < line.line.chunks; ++c) {
    for (size_t s = 0; s < pipeline.stages.size(); ++s) {
      const PassList& list = pipeline.stages[s].passes;
      const auto last = std::find_if(list.rbegin(), list.rend(), [&](const Pass& p) {
        return p.chunk == c && p.kind != PassKind::kForward;
      });
      out.last_backward.push_back(
          timing.pass_start[s][static_cast<size_t>(list.rend() - last) - 1]);
    }
  }
  return out;
}

}  // namespace foretrace
