#include "simulator/sharding/job.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "simulator/base/check.h"
#include "simulator/base/enum_names.h"
#include "simulator/base/status_macros.h"
#include "simulator/engine/edit.h"
#include "simulator/sharding/rank_script.h"
#include "simulator/trace/builder.h"

namespace foretrace {
namespace {

// PyTorch's DistributedDataParallel: the first bucket is smaller, so that communication starts
// early (kDefaultFirstBucketBytes).
constexpr int64_t kFirstBucketBytes = 1 << 20;
constexpr int64_t kLossBytes = 4;

using Ref = ShardedRankScript::Ref;

// The iteration of one rank, in the order in which torchrec and the DLRM reference issue it.
class IterationWriter {
 public:
  IterationWriter(const ShardingTask& task, const DenseWork& dense, PlanShape shape,
                  const LookupStack* stack, ShardedRankScript& script)
      : task_(task), dense_(dense), shape_(shape), script_(script) {
    if (stack == nullptr || task.gpus == 1) return;
    negotiated_ = stack->cycle > SimTime();
    negotiation_ = stack->cycle.ScaledBy(0.5);
    reduces_loss_ = stack->reduces_loss;
  }

  void Write() {
    Forward();
    Backward();
    Finish(last_bucket_);
    Ops(dense_.optimizer, WorkPart::kOptimizer);
    if (shape_.data_parallel) {
      script_.Await(table_gradient);
      script_.Op();
      copy_step = script_.Kernel("table_optimizer", WorkPart::kOptimizer, SimTime(),
                                 EstimateSource::kAnalytic);
    }
    if (reduces_loss_) ReduceLoss();
  }

  Ref lookup_forward, lookup_backward, copy_forward, copy_backward, copy_step, table_gradient;
  // The size of each bucket's all-reduce, in order of issue.
  std::vector<Bytes> buckets;

 private:
  Ref Communicate(CommStep step) {
    if (!shape_.Has(step)) return {};
    script_.Op();
    const WorkPart part = OpOf(step) == CollectiveOp::kAllToAll    ? WorkPart::kAllToAll
                          : OpOf(step) == CollectiveOp::kAllReduce ? WorkPart::kAllReduce
                                                                   : WorkPart::kRowCollectives;
    return script_.Communicate(step, part, negotiation_);
  }

  // What is issued from now on starts after `comm`; where the CPU learns of its end, it waits too.
  void Finish(Ref comm) {
    script_.Await(comm);
    if (negotiated_) script_.Block("collective done", comm);
  }

  // The step's function returns when the lookups' update knows how many rows it has, near its end.
  void ReduceLoss() {
    script_.Block("step function", lookup_backward);
    const Ref loss = Communicate(CommStep::kDenseGradient);
    buckets.push_back(Bytes(kLossBytes));
    Finish(loss);
  }

  void Ops(const std::vector<DenseOp>& ops, WorkPart part) {
    for (const DenseOp& op : ops) {
      script_.Op();
      for (const DenseKernel& k : op.kernels) script_.Kernel(k.name, part, k.time, k.source);
      Ready(op.gradients);
    }
  }

  void Forward() {
    if (shape_.indices) {
      const Ref lengths = Communicate(CommStep::kLengths);
      script_.Block("cudaEventSynchronize", lengths);  // the sizes of the next all-to-all
      Finish(Communicate(CommStep::kIndices));
    }
    if (shape_.pooled || shape_.row || shape_.table_row) {
      script_.Op();
      lookup_forward = script_.Kernel("embedding_forward", WorkPart::kLookupForward, SimTime(),
                                      EstimateSource::kAnalytic);
    }
    std::vector<Ref> pooled;
    for (const CommStep step :
         {CommStep::kPooled, CommStep::kRow, CommStep::kTableRowNode, CommStep::kTableRowAcross}) {
      pooled.push_back(Communicate(step));
    }
    if (shape_.data_parallel) {
      script_.Op();
      copy_forward = script_.Kernel("embedding_copy_forward", WorkPart::kLookupForward, SimTime(),
                                    EstimateSource::kAnalytic);
    }
    Ops(dense_.bottom_forward, WorkPart::kDense);
    for (const Ref& comm : pooled) Finish(comm);
    Ops(dense_.interaction_forward, WorkPart::kDense);
    Ops(dense_.top_forward, WorkPart::kDense);
  }

  void Backward() {
    Ops(dense_.top_backward, WorkPart::kDense);
    Ops(dense_.interaction_backward, WorkPart::kDense);
    std::vector<Ref> gradients;
    for (const CommStep step :
         {CommStep::kPooledGradient, CommStep::kRowGradient, CommStep::kTableRowAcrossGradient,
          CommStep::kTableRowNodeGradient}) {
      gradients.push_back(Communicate(step));
    }
    Ops(dense_.bottom_backward, WorkPart::kDense);
    CloseBucket();
    if (shape_.data_parallel) {
      script_.Op();
      copy_backward = script_.Kernel("embedding_copy_backward", WorkPart::kLookupBackward,
                                     SimTime(), EstimateSource::kAnalytic);
      table_gradient = Communicate(CommStep::kTableGradient);
    }
    if (lookup_forward.valid()) {
      for (const Ref& comm : gradients) Finish(comm);
      script_.Op();
      lookup_backward = script_.Kernel("embedding_backward", WorkPart::kLookupBackward, SimTime(),
                                       EstimateSource::kAnalytic);
    }
  }

  void Ready(Bytes gradients) {
    if (gradients.count() == 0) return;
    bucket_ += gradients;
    const Bytes cap = buckets.empty() ? std::min(Bytes(kFirstBucketBytes), task_.dense.bucket)
                                      : task_.dense.bucket;
    if (bucket_ >= cap) CloseBucket();
  }

  void CloseBucket() {
    if (bucket_.count() == 0) return;
    last_bucket_ = Communicate(CommStep::kDenseGradient);
    buckets.push_back(bucket_);
    bucket_ = Bytes();
  }

  const ShardingTask& task_;
  const DenseWork& dense_;
  PlanShape shape_;
  ShardedRankScript& script_;
  bool negotiated_ = false;
  SimTime negotiation_;
  bool reduces_loss_ = false;
  Bytes bucket_;
  Ref last_bucket_;
};

}  // namespace

std::string_view Name(WorkPart part) {
  static constexpr std::array<std::string_view, 8> kNames = {
      "cpu",       "lookup_forward", "lookup_backward", "dense",
      "optimizer", "all_to_all",     "row_collectives", "all_reduce"};
  return EnumName(kNames, part);
}

// Turns the script of one rank into the program of all.
class JobBuilder {
 public:
  JobBuilder(const ShardingTask& task, const ShardedRankScript& script,
             CollectiveTimes& collectives, int32_t ranks)
      : task_(task), script_(script), collectives_(collectives), ranks_(ranks) {
    uint32_t begin = 0;
    for (int l = 0; l < ShardedRankScript::kLanes; ++l) {
      begin_[l] = begin;
      begin += static_cast<uint32_t>(script.lane(static_cast<ShardedRankScript::Lane>(l)).size());
    }
  }

  uint32_t ItemOf(Ref ref) const { return ref.valid() ? begin_[ref.lane] + ref.position : kNoItem; }

  absl::StatusOr<ShardedJob> Build() {
    std::vector<std::pair<RankTrace, std::unique_ptr<StringPool>>> traces;
    for (int32_t r = 0; r < ranks_; ++r) {
      FORETRACE_ASSIGN_OR_RETURN(RankTraceBuilder::Result built, TraceOf(r));
      traces.emplace_back(std::move(built.trace), std::move(built.strings));
    }
    FORETRACE_ASSIGN_OR_RETURN(TraceStore store, TraceStore::Assemble(std::move(traces), {}));
    ShardedJob job(std::move(store));
    job.ranks_per_node_ = collectives_.ranks_per_node();
    AddItems(job);
    AddRendezvous(job);
    return job;
  }

 private:
  absl::StatusOr<RankTraceBuilder::Result> TraceOf(int32_t rank) const {
    RankInfo info;
    info.rank = rank;
    info.world_size = ranks_;
    info.source = task_.file;
    info.producer = "foretrace shard";
    info.has_times = false;
    info.synthetic = true;
    RankTraceBuilder builder(std::move(info));
    const LaneIndex lanes[] = {builder.AddLane(Lane::Kind::kCpuThread, 1),
                               builder.AddLane(Lane::Kind::kStream, 7),
                               builder.AddLane(Lane::Kind::kStream, 20)};
    builder.SetLaneLabel(lanes[1], "compute");
    builder.SetLaneLabel(lanes[2], "communication");
    for (int l = 0; l < ShardedRankScript::kLanes; ++l) {
      for (const ShardedRankScript::Entry& e :
           script_.lane(static_cast<ShardedRankScript::Lane>(l))) {
        RankTraceBuilder::NodeSpec spec;
        spec.kind = e.node_kind;
        spec.detail = e.node_detail;
        spec.name = e.name;
        spec.lane = lanes[l];
        const NodeIndex node = builder.AddNode(spec);
        if (e.issuer.valid()) builder.SetLauncher(node, NodeIndex(ItemOf(e.issuer)));
        if (e.node_kind == NodeKind::kCollective) builder.SetComm(node, {});
      }
    }
    RankTraceBuilder::Options options;
    options.sort_by_start = false;
    options.infer_nesting = false;
    return builder.Build(options);
  }

  void AddItems(ShardedJob& job) const {
    RankProgram program;
    for (uint8_t l = 0; l < ShardedRankScript::kLanes; ++l) {
      const auto lane = static_cast<ShardedRankScript::Lane>(l);
      LaneProgram lane_program;
      lane_program.lane = LaneIndex(l);
      lane_program.begin = begin_[l];
      lane_program.end = begin_[l] + static_cast<uint32_t>(script_.lane(lane).size());
      lane_program.cpu = lane == ShardedRankScript::kCpu;
      program.lanes.push_back(lane_program);
      for (const ShardedRankScript::Entry& e : script_.lane(lane)) {
        Item item = e.item;
        item.lane = l;
        item.node = NodeIndex(static_cast<uint32_t>(program.items.size()));
        item.issuer = ItemOf(e.issuer);
        item.waits_begin = static_cast<uint32_t>(program.waits.size());
        for (const Ref& wait : e.waits) {
          program.waits.push_back({ItemOf(wait), LagTable::kZero, false, e.holds_end,
                                   e.holds_end ? WaitCause::kCpuBlock : WaitCause::kDependency});
        }
        job.parts_.push_back(e.part);
        job.steps_.push_back(e.step);
        program.items.push_back(item);
      }
    }
    job.program_.ranks.assign(static_cast<size_t>(ranks_), program);
  }

  void AddRendezvous(ShardedJob& job) const {
    const auto per_node = static_cast<uint32_t>(collectives_.ranks_per_node());
    const auto& comms = script_.lane(ShardedRankScript::kCommunication);
    for (uint32_t c = 0; c < comms.size(); ++c) {
      const uint32_t item = begin_[ShardedRankScript::kCommunication] + c;
      const CommScope scope = ScopeOf(comms[c].step);
      const auto base = static_cast<uint32_t>(job.program_.rendezvous.size());
      const uint32_t count = scope == CommScope::kNode ? static_cast<uint32_t>(collectives_.nodes())
                             : scope == CommScope::kAcross ? per_node
                                                           : 1;
      job.program_.rendezvous.resize(base + count);
      for (uint32_t r = 0; r < job.program_.ranks.size(); ++r) {
        const uint32_t at = scope == CommScope::kNode     ? r / per_node
                            : scope == CommScope::kAcross ? r % per_node
                                                          : 0;
        job.program_.ranks[r].items[item].rendezvous = base + at;
        job.program_.rendezvous[base + at].members.push_back({r, item});
      }
      job.comm_[static_cast<size_t>(comms[c].step)] = item;
    }
  }

  const ShardingTask& task_;
  const ShardedRankScript& script_;
  CollectiveTimes& collectives_;
  int32_t ranks_;
  uint32_t begin_[ShardedRankScript::kLanes] = {};
};

absl::StatusOr<ShardedJob> ShardedJob::Build(const ShardingTask& task, const DenseWork& dense,
                                             PlanShape shape, JobSemantics semantics,
                                             CollectiveTimes& collectives, int32_t ranks,
                                             const LookupStack* stack) {
  FORETRACE_CHECK(ranks == task.gpus || !shape.table_row);
  ShardedRankScript script(task.cpu, semantics);
  IterationWriter writer(task, dense, shape, stack, script);
  writer.Write();
  JobBuilder builder(task, script, collectives, ranks);
  FORETRACE_ASSIGN_OR_RETURN(ShardedJob job, builder.Build());
  job.shape_ = shape;
  job.lookup_forward_ = builder.ItemOf(writer.lookup_forward);
  job.lookup_backward_ = builder.ItemOf(writer.lookup_backward);
  job.copy_forward_ = builder.ItemOf(writer.copy_forward);
  job.copy_backward_ = builder.ItemOf(writer.copy_backward);
  job.copy_step_ = builder.ItemOf(writer.copy_step);
  // The dense part's all-reduces are the same for every plan.
  job.buckets_.resize(job.parts_.size());
  size_t bucket = 0;
  const auto& comms = script.lane(ShardedRankScript::kCommunication);
  for (uint32_t c = 0; c < comms.size(); ++c) {
    if (comms[c].step != CommStep::kDenseGradient) continue;
    const Bytes bytes = writer.buckets[bucket++];
    const Estimate estimate = collectives.Time(CollectiveOp::kAllReduce, CommScope::kWorld, bytes);
    const uint32_t item = builder.ItemOf({ShardedRankScript::kCommunication, c});
    job.buckets_[item] = bytes;
    for (uint32_t r = 0; r < job.program_.ranks.size(); ++r) {
      SetDuration(job.program_, r, item, estimate);
    }
  }
  return job;
}

void ShardedJob::SetWork(const PlanWork& work, SimTime table_step,
                         std::span<const uint32_t> ranks) {
  FORETRACE_CHECK(work.shape == shape_ && ranks.size() == program_.ranks.size());
  for (uint32_t r = 0; r < program_.ranks.size(); ++r) {
    const PlanWork::Rank& rank = work.ranks[ranks[r]];
    const auto set = [&](uint32_t item, SimTime time) {
      if (item == kNoItem) return;
      SetDuration(program_, r, item, {time, EstimateSource::kAnalytic});
    };
    set(lookup_forward_, rank.lookups.forward);
    set(lookup_backward_, rank.lookups.backward);
    set(copy_forward_, rank.table_copies.forward);
    set(copy_backward_, rank.table_copies.backward);
    set(copy_step_, table_step);
    for (size_t step = 0; step < work.comm.size(); ++step) {
      const std::vector<Estimate>& times = work.comm[step];
      if (times.empty()) continue;
      const size_t at = ScopeOf(static_cast<CommStep>(step)) == CommScope::kNode
                            ? ranks[r] / static_cast<uint32_t>(ranks_per_node_)
                            : 0;
      SetDuration(program_, r, comm_[step], times[at]);
    }
  }
}

}  // namespace foretrace
