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
    micro_batches_ = static_cast<int32_t>(mapped.micro_batches);
    stages_ = static_cast<int32_t>(mapped.mapping.pipeline);
    chunks_ = static_cast<int32_t>(mapped.mapping.scheme.chunks);
    stage_ = stages_ > 1 ? PlaceIn(Role::kPipeline) : 0;
  }

  absl::StatusOr<RankTraceBuilder::Result> Write() {
    // Where one partition holds both passes, a micro-batch passes once.
    if (workload_.trains() && !Mixed()) {
      FORETRACE_ASSIGN_OR_RETURN(const PassList passes, Schedule());
      for (const foretrace::Pass& pass : passes) {
        WritePass({pass.kind == PassKind::kForward ? kForward : kBackward, pass.microbatch,
                   pass.chunk * stages_ + stage_});
      }
    } else {
      for (int32_t i = 0; i < micro_batches_; ++i) WritePass({kWhole, i, stage_});
    }
    Finish();
    return out_.Build();
  }

 private:
  enum Part : uint8_t { kForward, kBackward, kWhole };
  // Of a micro-batch through the layers of a place in the pipeline: chunks of stages one after
  // another.
  struct Step {
    Part part = kForward;
    int32_t micro_batch = 0;
    int32_t place = 0;
  };
  struct Group {
    std::string name;
    std::vector<int32_t> ranks;
  };

  absl::StatusOr<PassList> Schedule() const {
    if (chunks_ > 1) return InterleavedSchedule(micro_batches_, stages_, stage_, chunks_);
    return KFKBSchedule(micro_batches_, 1, std::min(2 * (stages_ - stage_) - 1, micro_batches_));
  }

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
      const double ns = e.time.ns() * mapped_.mapping.micro_batch;
      named += ns;
      after = exchanged_ =
          Communicate(OpOf(e.kind), e.role, workload_.kernels[static_cast<size_t>(e.kernel)].name,
                      e.bytes.count() * mapped_.mapping.micro_batch, ns, after, also);
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

  void WriteLayers(const Step& step, const std::string& name) {
    const bool backward = step.part == kBackward;
    const bool first = step.micro_batch == 0, last = step.micro_batch == micro_batches_ - 1;
    for (int64_t layer = 0; layer < mapped_.layers_per_stage / chunks_; ++layer) {
      if (!backward && first && divided()) AwaitWeights();
      for (const Partition& p : mapped_.partitioning.partitions) {
        if (step.part == kWhole || IsForward(p) != backward) WritePartition(p, name);
      }
      if (backward && last && overlapped()) {
        ReduceLayer(divided() ? CollectiveOp::kReduceScatter : CollectiveOp::kAllReduce,
                    out_.last());
      }
    }
  }

  bool overlapped() const {
    return mapped_.mapping.scheme.overlap_gradients && group(Role::kData).ranks.size() > 1;
  }
  bool divided() const { return overlapped() && mapped_.mapping.scheme.zero > 0; }
  // Of a layer, after those of the layers before it.
  void ReduceLayer(CollectiveOp op, NodeIndex after) {
    const double share = op == CollectiveOp::kAllReduce ? 1 : 0.5;
    const auto layers = static_cast<double>(mapped_.layers_per_stage);
    double bytes = mapped_.time.gradient_bytes.count() / layers;
    if (op == CollectiveOp::kAllGather)
      bytes /= static_cast<double>(group(Role::kData).ranks.size());
    reduced_ = Communicate(op, Role::kData, "gradients", bytes,
                           mapped_.time.layer_reduction.ns() * share, after, reduced_);
  }
  // Weights that the last iteration's optimizer updated.
  void AwaitWeights() {
    ReduceLayer(CollectiveOp::kAllGather, NodeIndex());
    out_.Compute("weights", SimTime(), reduced_);
  }

  void WritePass(const Step& step) {
    const bool backward = step.part == kBackward;
    const std::string name =
        fmt::format("{} micro-batch {}", backward ? "backward" : "forward", step.micro_batch);
    const int32_t from = step.place + (backward ? 1 : -1), to = step.place + (backward ? -1 : 1);
    const auto exists = [&](int32_t place) { return place >= 0 && place < stages_ * chunks_; };
    if (exists(from)) Transfer(NodeKind::kRecv, step, from, name);
    const bool last = step.place == stages_ * chunks_ - 1;
    const double head_ns = mapped_.time.head.ns() / static_cast<double>(micro_batches_);
    if (last && backward && head_ns > 0) out_.Compute("output layer and loss", Time(head_ns));
    for (int64_t layer = 0; backward && layer < mapped_.layers_per_stage / chunks_; ++layer) {
      for (const Partition& p : mapped_.repeated) WritePartition(p, "recompute " + name);
    }
    WriteLayers(step, name);
    if (last && step.part == kWhole && head_ns > 0) out_.Compute("output layer", Time(head_ns));
    if (exists(to)) Transfer(NodeKind::kSend, step, to, name);
  }

  void Transfer(NodeKind kind, const Step& step, int32_t place, const std::string& name) {
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
    m.peer = group(Role::kPipeline).ranks[static_cast<size_t>(place % stages_)];
    // Tags tell the direction and the micro-batch apart, and the edge by its earlier place.
    const int32_t edge = std::min(place, step.place);
    m.tag = (edge * 2 + (step.part == kBackward ? 1 : 0)) * micro_batches_ + step.micro_batch;
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
    const Role role = workload_.per_chip ? Role::kAll : Role::kData;
    NodeIndex reduced = exchanged_;
    if (overlapped()) {
      reduced = reduced_;
    } else if (t.gradient.ns() > 0 && group(role).ranks.size() > 1) {
      const bool scatters = mapped_.mapping.scheme.zero > 0;
      const double ns = scatters ? t.gradient.ns() / 2 : t.gradient.ns();
      reduced =
          Communicate(scatters ? CollectiveOp::kReduceScatter : CollectiveOp::kAllReduce, role,
                      "gradients", t.gradient_bytes.count(), ns, out_.last(), exchanged_);
    }
    const NodeIndex updated = out_.Compute("optimizer", Time(t.optimizer.ns()), reduced);
    if (overlapped() || mapped_.mapping.scheme.zero == 0 || t.gradient.ns() == 0) return;
    const auto members = static_cast<double>(group(role).ranks.size());
    const NodeIndex gathered =
        Communicate(CollectiveOp::kAllGather, role, "weights", t.gradient_bytes.count() / members,
                    t.gradient.ns() / 2, updated, NodeIndex());
    out_.Compute("weights", SimTime(), gathered);
  }

  const Workload& workload_;
  const System& system_;
  const MappedWorkload& mapped_;
  int32_t rank_;
  int32_t micro_batches_ = 1, stages_ = 1, chunks_ = 1, stage_ = 0;
  TraceEmitter out_;
  std::array<Group, static_cast<size_t>(Role::kCount)> groups_;
  NodeIndex exchanged_;  // the last exchange, for which the next partition waits
  NodeIndex reduced_;    // the last exchange over replicas that runs behind partitions
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
