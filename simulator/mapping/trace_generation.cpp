#include "simulator/mapping/trace_generation.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/mapping/mixed_layers.h"
#include "simulator/mapping/rank_groups.h"

namespace foretrace {
namespace {

class RankWriter {
 public:
  RankWriter(const TransformerConfig& model, const ParallelMapping& m, const PassTimes& passes,
             const TimedPipeline& pipeline, const GenerateOptions& options, int32_t stage,
             int32_t replica, int32_t shard)
      : m_(m),
        passes_(passes),
        pipeline_(pipeline),
        stage_(stage),
        replica_(replica),
        shard_(shard),
        model_(model),
        out_(Info(), options, model.dtype) {
    groups_ = AddRankGroups(m_, passes_, {stage_, replica_, shard_}, out_);
  }

  absl::StatusOr<RankTraceBuilder::Result> Write() {
    for (const Pass& pass : pipeline_.stages[static_cast<size_t>(stage_)].passes) WritePass(pass);
    if (!ReducesByLayer(m_)) Reduce(0, 1, out_.last());
    if (!groups_.tied.empty()) {
      reduced_ =
          out_.Communicate({NodeKind::kCollective, CollectiveOp::kAllReduce, "tied gradients",
                            groups_.tied, 2, passes_.tied_bytes, passes_.tied_reduction},
                           out_.last(), reduced_);
    }
    out_.Compute("optimizer", passes_.optimizer, reduced_);
    return out_.Build();
  }

 private:
  RankInfo Info() const {
    RankInfo info;
    info.rank = RankOf(m_, {stage_, replica_, shard_});
    info.world_size = static_cast<int32_t>(m_.devices());
    info.source = fmt::format("generated: {}", ToString(m_));
    info.producer = "foretrace generate";
    info.has_times = false;
    info.synthetic = true;
    return info;
  }

  // Part `index` of the gradients' reductions, each after the one before.
  void Reduce(int64_t index, int64_t parts, NodeIndex after) {
    const auto reduce = [&](const char* name, const std::string& group, int32_t members,
                            SimTime whole, Bytes bytes) {
      if (whole == SimTime()) return;
      // With divided gradients only the new weights are exchanged at the end.
      const CollectiveOp op = m_.zero == 2 ? CollectiveOp::kAllGather : CollectiveOp::kAllReduce;
      reduced_ =
          out_.Communicate({NodeKind::kCollective, op, name, group, members,
                            Bytes(bytes.count() / parts), ReductionPart(whole, parts, index)},
                           after, reduced_);
    };
    reduce("gradients", groups_.data, m_.replicas(), passes_.gradient_reduction,
           passes_.gradient_bytes);
    reduce("expert gradients", groups_.expert_data, m_.expert_replicas(), passes_.expert_reduction,
           passes_.expert_gradient_bytes);
  }

  // The other end of the edge into (forward) or out of this stage's chunk, as (edge, stage).
  std::optional<std::pair<size_t, int32_t>> Neighbour(int32_t chunk, bool before) const {
    for (size_t i = 0; i < pipeline_.edges.size(); ++i) {
      const TimedEdge& e = pipeline_.edges[i];
      if (before && e.to == stage_ && e.to_chunk == chunk) return std::pair(i, e.from);
      if (!before && e.from == stage_ && e.from_chunk == chunk) return std::pair(i, e.to);
    }
    return std::nullopt;
  }

  static std::string NameOf(const Pass& pass) {
    return fmt::format("{} micro-batch {} chunk {}",
                       pass.kind == PassKind::kForward          ? "forward"
                       : pass.kind == PassKind::kBackwardWeight ? "weight gradient"
                                                                : "backward",
                       pass.microbatch, pass.chunk);
  }

  void WriteWeights(const Pass& pass) {
    for (int64_t layer = 0; layer < LayersIn(pass); ++layer) {
      out_.Compute(NameOf(pass), Of(pass, layer).layer_weight);
      ReduceLayer(pass, layer);
    }
  }

  // To or from a neighbouring stage, over an edge. Tags tell edge, direction and micro-batch apart.
  TraceEmitter::Message MessageOf(const Pass& pass, NodeKind kind, const char* what,
                                  std::pair<size_t, int32_t> end) const {
    const size_t way = end.first * 2 + (pass.kind == PassKind::kForward ? 0 : 1);
    const auto tag = static_cast<int32_t>(way * static_cast<size_t>(pipeline_.mini_batch) +
                                          static_cast<size_t>(pass.microbatch));
    return {kind,
            CollectiveOp::kUnknown,
            what + NameOf(pass),
            groups_.pipeline,
            m_.pipeline,
            passes_.transfer_bytes,
            passes_.transfer,
            RankOf(m_, {end.second, replica_, shard_}),
            tag};
  }

  void WritePass(const Pass& pass) {
    if (pass.kind == PassKind::kBackwardWeight) return WriteWeights(pass);
    const bool forward = pass.kind == PassKind::kForward;
    const std::string name = NameOf(pass);
    NodeIndex input;
    if (const auto source = Neighbour(pass.chunk, forward)) {
      input = out_.Communicate(MessageOf(pass, NodeKind::kRecv, "recv ", *source), NodeIndex());
    }
    const bool head = stage_ + 1 == m_.pipeline && pass.chunk + 1 == m_.chunks;
    if (head && !forward) {
      WriteEnd(name + " head", passes_.head_backward, passes_.head_exchanges.backward, input);
      input = NodeIndex();
    }
    const bool embeds = stage_ == 0 && pass.chunk == 0;
    if (forward) input = GatherRoot(name, embeds, head, input);
    if (embeds && forward) {
      WriteEnd(name + " embedding", passes_.embedding_forward, passes_.embedding_exchanges.forward,
               input);
      input = NodeIndex();
    }
    WriteLayers(pass, name, input);
    if (embeds && !forward) {
      WriteEnd(name + " embedding", passes_.embedding_backward,
               passes_.embedding_exchanges.backward);
    }
    if (head && forward) {
      WriteEnd(name + " head", passes_.head_forward, passes_.head_exchanges.forward);
    }
    if (!forward) ReduceRoot(name, embeds, head);
    if (passes_.scale_reduction > SimTime()) {
      out_.WaitFor(out_.Communicate(
          {NodeKind::kCollective, CollectiveOp::kAllReduce, "scales " + name, groups_.scale,
           m_.tensor * m_.replicas(), Bytes(1024), passes_.scale_reduction},
          out_.last()));
    }
    if (const auto sink = Neighbour(pass.chunk, !forward)) {
      out_.Communicate(MessageOf(pass, NodeKind::kSend, "send ", *sink), out_.last());
    }
  }

  TraceEmitter::Message MessageOf(const PassExchange& e, const std::string& name) const {
    return foretrace::MessageOf(m_, groups_, e, name);
  }

  // A pass of the embedding or of the output layer, and then what it waits for.
  void WriteEnd(const std::string& name, SimTime duration, const PassExchanges::List& exchanges,
                NodeIndex input = NodeIndex()) {
    const auto named = [](const PassExchange& e) { return e.op != CollectiveOp::kUnknown; };
    for (const PassExchange& e : exchanges) {
      if (named(e)) duration -= SimTime::FromPs(e.time.ps() * e.count);
    }
    out_.Compute(name, duration, input);
    for (const PassExchange& e : exchanges) {
      for (int32_t i = 0; named(e) && i < e.count; ++i) {
        out_.WaitFor(out_.Communicate({NodeKind::kCollective, e.op, "exchange of " + name,
                                       groups_.tensor, m_.tensor, e.bytes, e.time},
                                      out_.last()));
      }
    }
  }

  // What a stage holds outside of layers; a stage that is first and last has all in first_root.
  NodeIndex GatherRoot(const std::string& name, bool first, bool last, NodeIndex input) {
    const auto gather = [&](const RootExchange& root) {
      if (root.gather == SimTime()) return;
      input =
          out_.Communicate({NodeKind::kCollective, CollectiveOp::kAllGather, "root weights " + name,
                            groups_.weight, m_.shards(), root.weights, root.gather},
                           out_.last(), input);
    };
    if (first) gather(passes_.first_root);
    if (last) gather(passes_.last_root);
    return input;
  }
  void ReduceRoot(const std::string& name, bool first, bool last) {
    const auto reduce = [&](const RootExchange& root) {
      if (root.reduce == SimTime()) return;
      out_.WaitFor(out_.Communicate(
          {NodeKind::kCollective, CollectiveOp::kReduceScatter, "root gradients " + name,
           groups_.data, m_.replicas(), root.gradients, root.reduce},
          out_.last()));
    };
    if (first) reduce(passes_.first_root);
    if (last) reduce(passes_.last_root);
  }

  int64_t Layers(int32_t chunk) const { return LayersOf(model_, m_, stage_, chunk); }
  int64_t LayersIn(const Pass& pass) const {
    return pass.kind == PassKind::kForward ? Layers(pass.chunk)
                                           : TrainedLayersOf(model_, m_, stage_, pass.chunk);
  }
  // What layer `index` of a pass takes, counted as the pass goes.
  const PassTimes& Of(const Pass& pass, int64_t index) const {
    const int64_t first = FirstLayer(model_, m_, stage_, pass.chunk);
    const bool forward = pass.kind == PassKind::kForward;
    return TimesOf(model_, first + (forward ? index : Layers(pass.chunk) - 1 - index), passes_);
  }

  void WriteLayers(const Pass& pass, const std::string& name, NodeIndex input) {
    const bool gathers = passes_.Gather() > SimTime();
    const bool reduces = pass.kind == PassKind::kBackward && passes_.reduce_behind > SimTime();
    const int64_t layers = LayersIn(pass);
    // The last use of the links between replicas, and the weights that the next layer needs.
    NodeIndex link = input, gathered, reduced;
    bool last_reduces = false;
    if (gathers && layers > 0) link = gathered = Gather(name, Of(pass, 0), out_.last(), input);
    for (int64_t layer = 0; layer < layers; ++layer) {
      const PassTimes& own = Of(pass, layer);
      const NodeIndex needed = gathers ? gathered : layer == 0 ? input : NodeIndex();
      // One layer ahead: with the start of this one.
      const bool ahead = gathers && layer + 1 < layers;
      if (ahead) link = gathered = Gather(name, Of(pass, layer + 1), out_.last(), link);
      WriteLayer(pass, name, own, needed);
      last_reduces = reduces && own.reduce_behind > SimTime();
      if (last_reduces) link = reduced = ReduceBehind(name, own, link);
      if (pass.kind == PassKind::kBackward) ReduceLayer(pass, layer);
    }
    if (last_reduces) {
      out_.WaitFor(link);
    } else if (reduced.valid()) {  // of an earlier layer: what follows waits for both
      out_.Compute(name, SimTime(), reduced);
    }
  }

  // A layer's gradients, dense ones before those of the experts; the last of the reductions.
  NodeIndex ReduceBehind(const std::string& name, const PassTimes& own, NodeIndex link) {
    const NodeIndex computed = out_.last();
    const auto reduce = [&](const char* what, const std::string& group, int32_t members,
                            const LayerExchange& exchange) {
      if (exchange.time == SimTime()) return;
      link = out_.Communicate({NodeKind::kCollective, CollectiveOp::kReduceScatter, what + name,
                               group, members, exchange.bytes, exchange.time},
                              computed, link);
    };
    reduce("gradients ", groups_.data, m_.replicas(), own.gradient);
    reduce("expert gradients ", groups_.expert_data, m_.expert_replicas(), own.expert_gradient);
    return link;
  }

  // A layer's weights, dense ones before those of the experts; the last of the gathers.
  NodeIndex Gather(const std::string& name, const PassTimes& own, NodeIndex after, NodeIndex also) {
    const auto gather = [&](const char* what, const std::string& group, int32_t members,
                            Bytes bytes, SimTime time) {
      if (time == SimTime()) return;
      also = out_.Communicate({NodeKind::kCollective, CollectiveOp::kAllGather, what + name, group,
                               members, bytes, time},
                              after, also);
    };
    gather("weights ", groups_.weight, m_.shards(), own.weight_bytes, own.weight_gather);
    gather("expert weights ", groups_.expert_data, m_.expert_replicas(), own.expert_weight_bytes,
           own.expert_weight_gather);
    return also;
  }

  void ReduceLayer(const Pass& pass, int64_t layer) {
    if (!ReducesByLayer(m_) || pass.microbatch + 1 != m_.microbatches()) return;
    // Chunks come in order of their backward passes, the last one first.
    int64_t before = layer;
    for (int32_t c = pass.chunk + 1; c < m_.chunks; ++c) before += Layers(c);
    Reduce(before, StageTrainedLayers(model_, m_, stage_), out_.last());
  }

  void WriteLayer(const Pass& pass, const std::string& name, const PassTimes& own,
                  NodeIndex input) {
    const bool forward = pass.kind == PassKind::kForward;
    SimTime left = forward ? own.layer_forward : own.layer_backward;
    if (pass.kind == PassKind::kBackwardInput) left -= own.layer_weight;
    left -= own.Exchanges(forward);
    // In order: what the sharded graph exchanges, then the layer's gradients.
    std::vector<std::pair<TraceEmitter::Message, int32_t>> steps;
    for (const PassExchange& e : own.layer_exchanges.of(forward)) {
      steps.emplace_back(MessageOf(e, name), e.count);
    }
    const auto reduce = [&](CollectiveOp op, const char* what, const std::string& group,
                            int32_t members, const LayerExchange& e) {
      steps.emplace_back(TraceEmitter::Message{NodeKind::kCollective, op, what + name, group,
                                               members, e.bytes, e.time},
                         forward ? e.forward : e.backward);
    };
    reduce(CollectiveOp::kAllReduce, "balance of experts ", groups_.sequence,
           m_.tensor * m_.context, own.balance);
    reduce(CollectiveOp::kReduceScatter, "gradients ", groups_.data, m_.replicas(), own.gradient);
    reduce(CollectiveOp::kReduceScatter, "expert gradients ", groups_.expert_data,
           m_.expert_replicas(), own.expert_gradient);
    const bool covers = pass.kind == PassKind::kBackward;
    const auto covered = static_cast<int64_t>(covers ? own.hidden.size() : 0);
    int64_t count = covered;
    for (const auto& [message, times] : steps) count += times;
    if (covers) {
      for (const HiddenExchange& h : own.hidden) left -= h.cover;
    }
    // Compute in equal parts, an exchange after each; the layer ends with compute where no exchange
    // would end it, so that what follows waits for the kernels beside the last one too.
    const bool uncovered = count > covered;
    int64_t parts = uncovered ? count : count + 1;
    const auto compute = [&] {
      const SimTime part = SimTime::FromPs(left.ps() / parts--);
      left -= part;
      out_.Compute(name, part, input);
      input = NodeIndex();
    };
    for (int64_t i = 0; i < covered; ++i) {
      compute();
      WriteHidden(own.hidden[static_cast<size_t>(i)], name);
    }
    if (!uncovered) compute();
    for (const auto& [message, times] : steps) {
      for (int32_t i = 0; i < times; ++i) {
        compute();
        out_.WaitFor(out_.Communicate(message, out_.last()));
      }
    }
  }

  // Exchanges one after another, and the kernels beside them.
  void WriteHidden(const HiddenExchange& hidden, const std::string& name) {
    const NodeIndex computed = out_.last();
    NodeIndex link;
    for (const PassExchange& e : hidden.exchanges) {
      link = out_.Communicate(MessageOf(e, name), computed, link);
    }
    out_.Compute(name, hidden.cover);
    out_.WaitFor(link);
  }

  const ParallelMapping& m_;
  const PassTimes& passes_;
  const TimedPipeline& pipeline_;
  int32_t stage_, replica_, shard_;
  const TransformerConfig& model_;
  TraceEmitter out_;
  RankGroups groups_;
  NodeIndex reduced_;
};

}  // namespace

absl::StatusOr<std::vector<RankTraceBuilder::Result>> GenerateTraces(
    const TransformerConfig& model, const ParallelMapping& m, const PassTimes& passes,
    const GenerateOptions& options) {
  FORETRACE_RETURN_IF_ERROR(CheckMapping(model, m, 0));
  const auto of_layer = [&](const PassTimes& p) {
    const PassExchanges& e = p.layer_exchanges;
    return 4 + 2.0 * static_cast<double>(e.Count(true) + e.Count(false)) +
           2.0 * (p.balance.forward + p.balance.backward + p.gradient.backward +
                  p.expert_gradient.backward) +
           6.0 * static_cast<double>(p.hidden.size());
  };
  double per_layer = of_layer(passes);
  if (passes.dense != nullptr) per_layer = std::max(per_layer, of_layer(*passes.dense));
  const double nodes =
      static_cast<double>(m.microbatches()) * static_cast<double>(m.replicas()) * m.tensor *
      (static_cast<double>(model.layers) * per_layer + 8.0 * m.pipeline * m.chunks) *
      (options.launch > SimTime() ? 2 : 1);
  if (nodes > kMaxGeneratedNodes) {
    return Infeasible(
        "mapping {}: its traces would have {:.2g} nodes; the limit is {:.2g}. A smaller global "
        "batch "
        "(gbN) gives shorter ones",
        ToString(m), nodes, kMaxGeneratedNodes);
  }
  FORETRACE_ASSIGN_OR_RETURN(const TimedPipeline pipeline, PipelineOf(model, m, passes));
  std::vector<RankTraceBuilder::Result> traces;
  for (int32_t s = 0; s < m.pipeline; ++s) {
    for (int32_t d = 0; d < m.replicas(); ++d) {
      for (int32_t t = 0; t < m.tensor; ++t) {
        FORETRACE_ASSIGN_OR_RETURN(
            auto trace, RankWriter(model, m, passes, pipeline, options, s, d, t).Write());
        traces.push_back(std::move(trace));
      }
    }
  }
  return traces;
}

}  // namespace foretrace
