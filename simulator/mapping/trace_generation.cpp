#include "simulator/mapping/trace_generation.h"

#include <map>
#include <optional>
#include <string>
#include <utility>

#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"

namespace foretrace {
namespace {

constexpr double kMaxNodes = 1e8;

class RankWriter {
 public:
  RankWriter(const TransformerConfig& model, const ParallelMapping& m, const PassTimes& passes,
             const TimedPipeline& pipeline, int32_t stage, int32_t replica, int32_t shard)
      : model_(model),
        m_(m),
        passes_(passes),
        pipeline_(pipeline),
        stage_(stage),
        replica_(replica),
        shard_(shard),
        builder_(Info()),
        compute_(builder_.AddLane(Lane::Kind::kStream, 7)),
        network_(builder_.AddLane(Lane::Kind::kStream, 20)) {
    builder_.SetLaneLabel(compute_, "compute");
    builder_.SetLaneLabel(network_, "communication");
    AddGroups();
  }

  absl::StatusOr<RankTraceBuilder::Result> Write() {
    for (const Pass& pass : pipeline_.stages[static_cast<size_t>(stage_)].passes) WritePass(pass);
    if (m_.data > 1) {
      last_ = Communicate(NodeKind::kCollective, "gradient all-reduce", data_group_, m_.data,
                          passes_.gradient_bytes, -1, 0, last_);
    }
    Compute("optimizer", passes_.optimizer);
    RankTraceBuilder::Options options;
    options.sort_by_start = false;
    options.infer_nesting = false;
    return builder_.Build(options);
  }

 private:
  int32_t RankOf(int32_t stage, int32_t replica, int32_t shard) const {
    return (stage * m_.data + replica) * m_.tensor + shard;
  }
  RankInfo Info() const {
    RankInfo info;
    info.rank = RankOf(stage_, replica_, shard_);
    info.world_size = static_cast<int32_t>(m_.devices());
    info.source = fmt::format("generated: {}", ToString(m_));
    info.producer = "foretrace generate";
    info.has_times = false;
    info.synthetic = true;
    return info;
  }

  std::string AddGroup(const char* kind, std::vector<int32_t> ranks) {
    std::string name = fmt::format("{}_{}", kind, ranks.front());
    builder_.AddProcessGroup({name, kind, std::move(ranks)});
    return name;
  }
  void AddGroups() {
    std::vector<int32_t> tensor, data, stages;
    for (int32_t t = 0; t < m_.tensor; ++t) tensor.push_back(RankOf(stage_, replica_, t));
    for (int32_t d = 0; d < m_.data; ++d) data.push_back(RankOf(stage_, d, shard_));
    for (int32_t s = 0; s < m_.pipeline; ++s) stages.push_back(RankOf(s, replica_, shard_));
    if (m_.tensor > 1) tensor_group_ = AddGroup("tensor", std::move(tensor));
    if (m_.data > 1) data_group_ = AddGroup("data", std::move(data));
    if (m_.pipeline > 1) pipeline_group_ = AddGroup("pipeline", std::move(stages));
  }

  NodeIndex Compute(const std::string& name, SimTime duration, NodeIndex also = NodeIndex()) {
    RankTraceBuilder::NodeSpec spec;
    spec.kind = NodeKind::kKernel;
    spec.name = name;
    spec.lane = compute_;
    spec.duration = duration;
    spec.source_id = ++ids_;
    const NodeIndex node = builder_.AddNode(spec);
    // Program order of the stream: a trace without times has no other.
    if (last_.valid()) builder_.AddDependency(node, last_, DependencyKind::kControl);
    if (also.valid()) builder_.AddDependency(node, also, DependencyKind::kData);
    return last_ = node;
  }

  NodeIndex Communicate(NodeKind kind, const std::string& name, const std::string& group,
                        int32_t group_size, Bytes bytes, int32_t peer, int32_t tag,
                        NodeIndex after) {
    RankTraceBuilder::NodeSpec spec;
    spec.kind = kind;
    if (kind == NodeKind::kCollective) {
      spec.detail = static_cast<uint8_t>(CollectiveOp::kAllReduce);
    }
    spec.name = name;
    spec.lane = network_;
    spec.source_id = ++ids_;
    const NodeIndex node = builder_.AddNode(spec);
    CommAttr comm;
    comm.group = builder_.Intern(group);
    if (kind != NodeKind::kRecv) comm.bytes_in = bytes;
    if (kind != NodeKind::kSend) comm.bytes_out = bytes;
    comm.peer = peer;
    comm.tag = tag;
    comm.dtype = DType::kFloat16;
    comm.group_size = group_size;
    builder_.SetComm(node, comm);
    if (after.valid()) builder_.AddDependency(node, after, DependencyKind::kData);
    return node;
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

  void WritePass(const Pass& pass) {
    const bool forward = pass.kind == PassKind::kForward;
    const std::string name = fmt::format("{} micro-batch {} chunk {}",
                                         forward ? "forward" : "backward", pass.microbatch, pass.chunk);
    // Tags tell edge, direction and micro-batch apart.
    const auto tag = [&](size_t edge) {
      return static_cast<int32_t>((edge * 2 + (forward ? 0 : 1)) *
                                      static_cast<size_t>(pipeline_.mini_batch) +
                                  static_cast<size_t>(pass.microbatch));
    };
    NodeIndex input;
    if (const auto source = Neighbour(pass.chunk, forward)) {
      input = Communicate(NodeKind::kRecv, "recv " + name, pipeline_group_, m_.pipeline,
                          passes_.tensor_bytes, RankOf(source->second, replica_, shard_),
                          tag(source->first), NodeIndex());
    }
    const bool head = stage_ + 1 == m_.pipeline && pass.chunk + 1 == m_.chunks;
    if (head && !forward) {
      Compute(name + " head", passes_.head_backward, input);
      input = NodeIndex();
    }
    const auto layers = model_.layers / (int64_t{m_.pipeline} * m_.chunks);
    for (int64_t layer = 0; layer < layers; ++layer) {
      WriteLayer(name, forward, input);
      input = NodeIndex();
    }
    if (head && forward) Compute(name + " head", passes_.head_forward);
    if (const auto sink = Neighbour(pass.chunk, !forward)) {
      Communicate(NodeKind::kSend, "send " + name, pipeline_group_, m_.pipeline,
                  passes_.tensor_bytes, RankOf(sink->second, replica_, shard_), tag(sink->first),
                  last_);
    }
  }

  void WriteLayer(const std::string& name, bool forward, NodeIndex input) {
    const int64_t reductions = m_.tensor == 1 ? 1 : forward ? 2 : passes_.backward_reductions;
    SimTime left = forward ? passes_.layer_forward : passes_.layer_backward;
    if (m_.tensor > 1) left -= SimTime::FromPs(reductions * passes_.tensor_reduction.ps());
    // Compute in equal parts, an all-reduce after each.
    for (int64_t i = 0; i < reductions; ++i) {
      const SimTime part = SimTime::FromPs(left.ps() / (reductions - i));
      left -= part;
      Compute(name, part, input);
      input = NodeIndex();
      if (m_.tensor > 1) {
        last_ = Communicate(NodeKind::kCollective, "all-reduce " + name, tensor_group_, m_.tensor,
                            passes_.tensor_bytes, -1, 0, last_);
      }
    }
  }

  const TransformerConfig& model_;
  const ParallelMapping& m_;
  const PassTimes& passes_;
  const TimedPipeline& pipeline_;
  int32_t stage_, replica_, shard_;
  RankTraceBuilder builder_;
  LaneIndex compute_, network_;
  std::string tensor_group_, data_group_, pipeline_group_;
  NodeIndex last_;
  uint64_t ids_ = 0;
};

}  // namespace

absl::StatusOr<std::vector<RankTraceBuilder::Result>> GenerateTraces(
    const TransformerConfig& model, const ParallelMapping& m, const PassTimes& passes) {
  FORETRACE_RETURN_IF_ERROR(CheckMapping(model, m, 0));
  const double per_layer = m.tensor > 1 ? 4.0 + 2.0 * passes.backward_reductions : 2.0;
  const double nodes = static_cast<double>(m.microbatches()) * static_cast<double>(m.data) * m.tensor *
                       (static_cast<double>(model.layers) * per_layer + 6.0 * m.pipeline * m.chunks);
  if (nodes > kMaxNodes) {
    return Infeasible("mapping {}: its traces would have {:.2g} nodes; the limit is {:.2g}",
                      ToString(m), nodes, kMaxNodes);
  }
  FORETRACE_ASSIGN_OR_RETURN(const TimedPipeline pipeline, PipelineOf(model, m, passes));
  std::vector<RankTraceBuilder::Result> traces;
  for (int32_t s = 0; s < m.pipeline; ++s) {
    for (int32_t d = 0; d < m.data; ++d) {
      for (int32_t t = 0; t < m.tensor; ++t) {
        FORETRACE_ASSIGN_OR_RETURN(auto trace,
                                   RankWriter(model, m, passes, pipeline, s, d, t).Write());
        traces.push_back(std::move(trace));
      }
    }
  }
  return traces;
}

}  // namespace foretrace
