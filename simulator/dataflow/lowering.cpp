#include "simulator/dataflow/lowering.h"

#include <algorithm>
#include <cmath>

#include "simulator/base/collective_op.h"
#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/dataflow/quantities.h"
#include "simulator/mapping/schedule.h"

namespace foretrace::dataflow {
namespace {

SimTime Time(double ns) { return SimTime::FromPs(std::llround(ns * 1000)); }
Bytes Size(double bytes) { return Bytes(std::llround(bytes)); }

CollectiveOp OpOf(Exchange::Kind kind) {
  switch (kind) {
    case Exchange::Kind::kAllGather:
      return CollectiveOp::kAllGather;
    case Exchange::Kind::kAllToAll:
      return CollectiveOp::kAllToAll;
    case Exchange::Kind::kBroadcast:
      return CollectiveOp::kBroadcast;
    case Exchange::Kind::kReduceScatter:
      return CollectiveOp::kReduceScatter;
    default:
      return CollectiveOp::kAllReduce;
  }
}

// One chip's trace.
class ChipWriter {
 public:
  ChipWriter(const Workload& workload, const System& system, const MappedWorkload& mapped,
             const LoweringOptions& options, int32_t rank)
      : workload_(workload),
        system_(system),
        mapped_(mapped),
        rank_(rank),
        out_(Info(workload, system, rank), {options.communication_durations, SimTime()},
             DType::kFloat16) {
    for (const Role role : {Role::kTensor, Role::kPipeline, Role::kData, Role::kAll})
      AddGroup(role);
  }

  absl::StatusOr<RankTraceBuilder::Result> Write() {
    const auto micro_batches = static_cast<int32_t>(mapped_.micro_batches);
    const auto stages = static_cast<int32_t>(mapped_.mapping.pipeline);
    const int32_t stage = stages > 1 ? PlaceIn(Role::kPipeline) : 0;
    // Where one partition holds both passes, a micro-batch passes once.
    const bool both = workload_.trains() && !Mixed();
    if (both) {
      for (const foretrace::Pass& pass :
           KFKBSchedule(micro_batches, 1, std::min(2 * (stages - stage) - 1, micro_batches))) {
        WritePass(pass.kind == PassKind::kForward ? kForward : kBackward, pass.microbatch, stage,
                  stages);
      }
    } else {
      for (int32_t i = 0; i < micro_batches; ++i) WritePass(kWhole, i, stage, stages);
    }
    Finish();
    return out_.Build();
  }

 private:
  enum Part : uint8_t { kForward, kBackward, kWhole };
  struct Group {
    std::string name;
    std::vector<int32_t> ranks;
  };

  static RankInfo Info(const Workload& workload, const System& system, int32_t rank) {
    RankInfo info;
    info.rank = rank;
    info.world_size = static_cast<int32_t>(system.chips());
    info.source = fmt::format("generated: {} on {}", workload.name, system.name);
    info.producer = "foretrace dataflow";
    info.has_times = false;
    info.synthetic = true;
    return info;
  }

  // The chip's index within the dimensions of a role, their first running fastest.
  int32_t PlaceIn(Role role) const {
    int32_t rest = rank_, place = 0, stride = 1;
    for (size_t d = 0; d < system_.dimensions.size(); ++d) {
      const auto size = static_cast<int32_t>(system_.dimensions[d].network.size);
      if (mapped_.mapping.roles[d] == role) {
        place += rest % size * stride;
        stride *= size;
      }
      rest /= size;
    }
    return place;
  }

  void AddGroup(Role role) {
    std::vector<int32_t> ranks = {rank_};
    int32_t stride = 1;
    for (size_t d = 0; d < system_.dimensions.size(); ++d) {
      const auto size = static_cast<int32_t>(system_.dimensions[d].network.size);
      if (mapped_.mapping.roles[d] == role) {
        std::vector<int32_t> more;
        for (int32_t i = 0; i < size; ++i) {
          for (const int32_t r : ranks) more.push_back(r + (i - r / stride % size) * stride);
        }
        ranks = std::move(more);
      }
      stride *= size;
    }
    std::sort(ranks.begin(), ranks.end());
    Group& group = groups_[static_cast<size_t>(role)];
    group.ranks = ranks;
    if (ranks.size() > 1) group.name = out_.AddGroup(std::string(Name(role)), ranks);
  }
  const Group& group(Role role) const { return groups_[static_cast<size_t>(role)]; }

  bool IsForward(const Partition& p) const {
    for (size_t i = 0; i < workload_.kernels.size(); ++i) {
      if (((p.kernels >> i) & 1) != 0) return workload_.kernels[i].pass == Direction::kForward;
    }
    return true;
  }
  bool Mixed() const {
    KernelSet forward = 0;
    for (size_t i = 0; i < workload_.kernels.size(); ++i) {
      if (workload_.kernels[i].pass == Direction::kForward) forward |= KernelSet{1} << i;
    }
    return std::any_of(mapped_.partitioning.partitions.begin(),
                       mapped_.partitioning.partitions.end(), [&](const Partition& p) {
                         return (p.kernels & forward) != 0 && (p.kernels & ~forward) != 0;
                       });
  }

  // The partition after all that came before it; its end is what the next one waits for.
  void WritePartition(const Partition& p, const std::string& name) {
    const double parts = p.compute_ns + p.memory_ns + p.network_ns;
    const bool overlaps = p.time_ns < parts * (1 - 1e-12);
    const NodeIndex begin = out_.last();
    const NodeIndex held = exchanged_;
    const NodeIndex work = out_.Compute(
        name, Time(overlaps ? std::max(p.compute_ns, p.memory_ns) : p.compute_ns + p.memory_ns),
        held);
    NodeIndex after = overlaps ? begin : work, also = overlaps ? held : NodeIndex();
    double named = 0;
    for (const Exchange& e : mapped_.exchanges) {
      if (((p.kernels >> e.kernel) & 1) == 0 || group(e.role).ranks.size() < 2) continue;
      const double ns = e.ns * mapped_.mapping.micro_batch;
      named += ns;
      after = exchanged_ =
          Communicate(OpOf(e.kind), e.role, workload_.kernels[static_cast<size_t>(e.kernel)].name,
                      e.bytes * mapped_.mapping.micro_batch, ns, after, also);
      also = NodeIndex();
    }
    // Published rules put a share of the gradients' reduction into each partition.
    if (p.network_ns > named * (1 + 1e-9) + 1e-3)
      out_.Compute("share of the gradients' reduction", Time(p.network_ns - named));
  }

  NodeIndex Communicate(CollectiveOp op, Role role, const std::string& name, double bytes,
                        double ns, NodeIndex after, NodeIndex also) {
    const auto members = static_cast<int32_t>(group(role).ranks.size());
    if (op == CollectiveOp::kAllGather) bytes *= members;  // what is gathered
    return out_.Communicate(
        {NodeKind::kCollective, op, name, group(role).name, members, Size(bytes), Time(ns)}, after,
        also);
  }

  void WriteLayers(bool forward, bool whole, const std::string& name) {
    for (int64_t layer = 0; layer < mapped_.layers_per_stage; ++layer) {
      for (const Partition& p : mapped_.partitioning.partitions) {
        if (whole || IsForward(p) == forward) WritePartition(p, name);
      }
    }
  }

  void WritePass(Part part, int32_t micro_batch, int32_t stage, int32_t stages) {
    const bool backward = part == kBackward;
    const std::string name =
        fmt::format("{} micro-batch {}", backward ? "backward" : "forward", micro_batch);
    const int32_t from = backward ? stage + 1 : stage - 1, to = backward ? stage - 1 : stage + 1;
    const auto exists = [&](int32_t s) { return s >= 0 && s < stages; };
    if (exists(from)) Transfer(NodeKind::kRecv, from, micro_batch, backward, name);
    if (backward && mapped_.mapping.recompute) WriteLayers(true, false, "recompute " + name);
    WriteLayers(part == kForward, part == kWhole, name);
    if (exists(to)) Transfer(NodeKind::kSend, to, micro_batch, backward, name);
  }

  void Transfer(NodeKind kind, int32_t stage, int32_t micro_batch, bool backward,
                const std::string& name) {
    TraceEmitter::Message m;
    m.kind = kind;
    m.op = CollectiveOp::kUnknown;
    m.name = (kind == NodeKind::kSend ? "send " : "receive ") + name;
    m.group = group(Role::kPipeline).name;
    m.group_size = static_cast<int32_t>(group(Role::kPipeline).ranks.size());
    m.bytes = Size(workload_.layer_input_bytes * mapped_.mapping.micro_batch);
    for (size_t d = 0; d < system_.dimensions.size(); ++d) {
      if (mapped_.mapping.roles[d] != Role::kPipeline) continue;
      const NetworkDimension& link = system_.dimensions[d].network;
      m.duration = Time(NsOf(CountOf(m.bytes), link.bandwidth) + NsOf(link.latency));
      break;
    }
    m.peer = group(Role::kPipeline).ranks[static_cast<size_t>(stage)];
    // Tags tell the direction and the micro-batch apart, and the edge by its earlier stage.
    const int32_t edge = std::min(stage, PlaceIn(Role::kPipeline));
    m.tag =
        (edge * 2 + (backward ? 1 : 0)) * static_cast<int32_t>(mapped_.micro_batches) + micro_batch;
    if (kind == NodeKind::kSend) {
      // Beside the work that follows.
      out_.Communicate(m, out_.last(), exchanged_);
    } else {
      const NodeIndex received = out_.Communicate(m, NodeIndex());
      std::vector<NodeIndex> before = {received};
      if (exchanged_.valid()) before.push_back(exchanged_);
      out_.Compute("input of " + name, SimTime(), before);
      exchanged_ = NodeIndex();
    }
  }

  void Finish() {
    const IterationTime& t = mapped_.time;
    NodeIndex reduced = exchanged_;
    const Role role = workload_.per_chip ? Role::kAll : Role::kData;
    if (t.gradient_ns > 0 && group(role).ranks.size() > 1) {
      reduced = Communicate(CollectiveOp::kAllReduce, role, "gradients", t.gradient_bytes,
                            t.gradient_ns, out_.last(), exchanged_);
    }
    out_.Compute("optimizer", Time(t.optimizer_ns), reduced);
  }

  const Workload& workload_;
  const System& system_;
  const MappedWorkload& mapped_;
  int32_t rank_;
  TraceEmitter out_;
  std::array<Group, static_cast<size_t>(Role::kCount)> groups_;
  NodeIndex exchanged_;  // the last exchange, for which the next partition waits
};

}  // namespace

absl::StatusOr<std::vector<RankTraceBuilder::Result>> LowerToTraces(
    const Workload& workload, const System& system, const MappedWorkload& mapped,
    const LoweringOptions& options) {
  const double nodes =
      static_cast<double>(system.chips()) * mapped.micro_batches *
      static_cast<double>(mapped.layers_per_stage) *
      static_cast<double>(2 * mapped.partitioning.partitions.size() + mapped.exchanges.size());
  if (nodes > kMaxGeneratedNodes) {
    return Infeasible("traces of {:.3g} nodes; up to {:.0g}: give a smaller --batch", nodes,
                      kMaxGeneratedNodes);
  }
  std::vector<RankTraceBuilder::Result> out;
  for (int32_t rank = 0; rank < system.chips(); ++rank) {
    FORETRACE_ASSIGN_OR_RETURN(auto trace,
                               ChipWriter(workload, system, mapped, options, rank).Write());
    out.push_back(std::move(trace));
    if (options.progress) options.progress(rank + 1, system.chips());
    if (options.stop.stop_requested()) return absl::CancelledError("interrupted");
  }
  return out;
}

}  // namespace foretrace::dataflow
