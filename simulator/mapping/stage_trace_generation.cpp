// Traces of stage graphs, whose stages may differ in devices and micro-batch size.

#include <algorithm>
#include <utility>

#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/mapping/trace_generation.h"

namespace foretrace {
namespace {

struct StageGraph {
  const TimedPipeline& pipeline;
  const std::vector<GeneratedStage>& stages;
  const std::vector<Bytes>& edge_bytes;
  DType dtype;
  std::vector<int32_t> first_rank;  // by stage, and the number of ranks
};

class StageRankWriter {
 public:
  StageRankWriter(const StageGraph& graph, const GenerateOptions& options, int32_t stage,
                  int32_t device)
      : g_(graph),
        stage_(stage),
        device_(device),
        timed_(graph.pipeline.stages[static_cast<size_t>(stage)]),
        own_(graph.stages[static_cast<size_t>(stage)]),
        out_(Info(), options, graph.dtype) {}

  absl::StatusOr<RankTraceBuilder::Result> Write() {
    std::vector<int32_t> all(static_cast<size_t>(g_.first_rank.back()));
    for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int32_t>(i);
    if (all.size() > 1) world_ = out_.AddGroup("world", all);
    for (const Pass& pass : timed_.passes) WritePass(pass);
    const int32_t count = own_.devices / own_.tensor;
    if (count > 1 && own_.gradient_reduction > SimTime()) {
      std::vector<int32_t> replicas;
      for (int32_t d = device_ % own_.tensor; d < own_.devices; d += own_.tensor) {
        replicas.push_back(Rank(stage_, d));
      }
      out_.Communicate(
          {NodeKind::kCollective, CollectiveOp::kAllReduce, "gradients",
           out_.AddGroup("data", replicas), count, own_.gradient_bytes, own_.gradient_reduction},
          out_.last());
    }
    return out_.Build();
  }

 private:
  int32_t Rank(int32_t stage, int32_t device) const {
    return g_.first_rank[static_cast<size_t>(stage)] + device;
  }
  RankInfo Info() const {
    RankInfo info;
    info.rank = Rank(stage_, device_);
    info.world_size = g_.first_rank.back();
    info.source = fmt::format("generated: stage {} ({})", stage_, own_.name);
    info.producer = "foretrace generate";
    info.has_times = false;
    info.synthetic = true;
    return info;
  }

  // Messages with every replica of `other` that has samples in common with this one, in
  // micro-batches of the larger size; `end` of them in samples. Of a replica's devices, which have
  // the same tensors, the one of the receiver's place (modulo their number) sends. Appends the
  // nodes.
  void Exchange(NodeKind kind, size_t edge, int32_t other, bool forward, int32_t end, int32_t unit,
                std::vector<NodeIndex>* nodes) {
    const TimedEdge& e = g_.pipeline.edges[edge];
    const GeneratedStage& peer = g_.stages[static_cast<size_t>(other)];
    const int64_t mine = own_.devices / own_.tensor, theirs = peer.devices / peer.tensor;
    const int32_t replica = device_ / own_.tensor, place = device_ % own_.tensor;
    const bool sends = kind == NodeKind::kSend;
    TraceEmitter::Message message;
    message.kind = kind;
    message.name = fmt::format("{} {} {} samples {} to {}", sends ? "send" : "recv",
                               forward ? "activations" : "gradients", sends ? "of" : "for",
                               end - unit, end - 1);
    message.group = world_;
    message.group_size = g_.first_rank.back();
    message.bytes = g_.edge_bytes[edge];
    message.duration = forward ? e.forward_transfer : e.backward_transfer;
    message.tag = static_cast<int32_t>((edge * 2 + (forward ? 0 : 1)) *
                                           static_cast<size_t>(g_.pipeline.mini_batch) +
                                       static_cast<size_t>(end / unit - 1));
    for (int32_t d = 0; d < theirs * peer.tensor; ++d) {
      const int32_t r = d / peer.tensor, at = d % peer.tensor;
      if (r * mine >= (replica + 1) * theirs || replica * theirs >= (r + 1) * mine) continue;
      if (sends ? at % own_.tensor != place : place % peer.tensor != at) continue;
      message.peer = Rank(other, d);
      const NodeIndex node = out_.Communicate(message, sends ? out_.last() : NodeIndex());
      if (nodes != nullptr) nodes->push_back(node);
    }
  }

  // Kernels in equal parts, and after each what the devices of a replica sum.
  void WriteWork(const std::string& name, SimTime duration, const PassExchangeTime& exchange,
                 const std::vector<NodeIndex>& inputs) {
    if (exchange.count == 0) {
      out_.Compute(name, duration, inputs);
      return;
    }
    SimTime kernels = duration - exchange.time, left = exchange.time;
    for (int32_t i = exchange.count; i > 0; --i) {
      const SimTime part = SimTime::FromPs(kernels.ps() / i), sum = SimTime::FromPs(left.ps() / i);
      kernels -= part;
      left -= sum;
      out_.Compute(name, part, i == exchange.count ? inputs : std::vector<NodeIndex>());
      out_.WaitFor(out_.Communicate(
          {NodeKind::kCollective, CollectiveOp::kAllReduce, "all-reduce " + name, TensorGroup(),
           own_.tensor, Bytes(exchange.bytes.count() / exchange.count), sum},
          out_.last()));
    }
  }

  const std::string& TensorGroup() {
    if (tensor_.empty()) {
      std::vector<int32_t> ranks;
      const int32_t first = device_ - device_ % own_.tensor;
      for (int32_t i = 0; i < own_.tensor; ++i) ranks.push_back(Rank(stage_, first + i));
      tensor_ = out_.AddGroup("tensor", ranks);
    }
    return tensor_;
  }

  void WritePass(const Pass& pass) {
    const bool forward = pass.kind == PassKind::kForward;
    const int32_t size = timed_.micro_batch;
    const int32_t begin = pass.microbatch * size, end = begin + size;
    const auto unit = [&](int32_t other) {
      return std::max(size, g_.pipeline.stages[static_cast<size_t>(other)].micro_batch);
    };
    std::vector<NodeIndex> inputs;
    for (size_t i = 0; i < g_.pipeline.edges.size(); ++i) {
      const TimedEdge& e = g_.pipeline.edges[i];
      const int32_t other = forward ? e.from : e.to;
      if ((forward ? e.to : e.from) != stage_ || begin % unit(other) != 0) continue;
      Exchange(NodeKind::kRecv, i, other, forward, begin + unit(other), unit(other), &inputs);
    }
    WriteWork(fmt::format("{} micro-batch {}", forward ? "forward" : "backward", pass.microbatch),
              forward ? timed_.forward[0] : timed_.backward[0],
              forward ? timed_.forward_exchange : timed_.backward_exchange, inputs);
    for (size_t i = 0; i < g_.pipeline.edges.size(); ++i) {
      const TimedEdge& e = g_.pipeline.edges[i];
      const int32_t other = forward ? e.to : e.from;
      if ((forward ? e.from : e.to) != stage_ || end % unit(other) != 0) continue;
      Exchange(NodeKind::kSend, i, other, forward, end, unit(other), nullptr);
    }
  }

  const StageGraph& g_;
  int32_t stage_, device_;
  const TimedStage& timed_;
  const GeneratedStage& own_;
  TraceEmitter out_;
  std::string world_, tensor_;
};

}  // namespace

absl::StatusOr<std::vector<RankTraceBuilder::Result>> GenerateStageTraces(
    const TimedPipeline& pipeline, const std::vector<GeneratedStage>& stages,
    const std::vector<Bytes>& edge_bytes, DType dtype, const GenerateOptions& options) {
  StageGraph graph{pipeline, stages, edge_bytes, dtype, {0}};
  double nodes = 0;
  for (size_t s = 0; s < stages.size(); ++s) {
    if (pipeline.stages[s].forward.size() != 1) {
      return InvalidInput("stage {}: chunks are not for stage graphs", s);
    }
    for (const Pass& pass : pipeline.stages[s].passes) {
      if (pass.kind != PassKind::kForward && pass.kind != PassKind::kBackward) {
        return InvalidInput("stage {}: split backward passes are not for stage graphs", s);
      }
    }
    graph.first_rank.push_back(graph.first_rank.back() + stages[s].devices);
    const int32_t exchanges = std::max(pipeline.stages[s].forward_exchange.count,
                                       pipeline.stages[s].backward_exchange.count);
    nodes += (4.0 + 2.0 * exchanges) * static_cast<double>(pipeline.stages[s].passes.size()) *
             stages[s].devices;
  }
  if (nodes > kMaxGeneratedNodes) {
    return Infeasible(
        "the stage graph's traces would have {:.2g} nodes; the limit is {:.2g}. A smaller "
        "mini-batch gives shorter ones",
        nodes, kMaxGeneratedNodes);
  }
  std::vector<RankTraceBuilder::Result> traces;
  for (size_t s = 0; s < stages.size(); ++s) {
    for (int32_t d = 0; d < stages[s].devices; ++d) {
      FORETRACE_ASSIGN_OR_RETURN(
          auto trace, StageRankWriter(graph, options, static_cast<int32_t>(s), d).Write());
      traces.push_back(std::move(trace));
    }
  }
  return traces;
}

}  // namespace foretrace
