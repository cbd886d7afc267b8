#include "simulator/sharding/plan_traces.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "simulator/base/check.h"
#include "simulator/base/status_macros.h"
#include "simulator/trace/builder.h"

namespace foretrace {
namespace {

constexpr int64_t kLoopThread = 100;  // the first of them

// An item's nodes. Device work that a call issues depends on its first part.
struct ItemNodes {
  NodeIndex first, last;
};

class RankWriter {
 public:
  RankWriter(const ShardingTask& task, const ShardedJob& job, const PlanWork& work, uint32_t rank,
             int32_t ranks_per_node, RankTraceBuilder& builder)
      : task_(task),
        job_(job),
        work_(work),
        program_(job.program().ranks[rank]),
        rank_(rank),
        per_node_(static_cast<uint32_t>(ranks_per_node)),
        builder_(builder) {}

  void Write() {
    AddGroups();
    SetIssueLags();
    nodes_.resize(program_.items.size());
    // Lanes in the order of the program: the CPU first, so that what issues work is there.
    for (const LaneProgram& lane : program_.lanes) {
      const LaneIndex index =
          builder_.AddLane(lane.cpu ? Lane::Kind::kCpuThread : Lane::Kind::kStream,
                           job_.store().ranks()[rank_].lane_at(lane.lane).id);
      builder_.SetLaneLabel(index, job_.store().ranks()[rank_].lane_at(lane.lane).label);
      NodeIndex previous;
      for (uint32_t i = lane.begin; i < lane.end; ++i) {
        if (lane.cpu) {
          AddCall(i, index, previous);
        } else {
          AddDeviceWork(i, index, previous);
        }
        previous = nodes_[i].last;
      }
      if (lane.cpu) AddAgreements();
    }
    // Waits may be for items of later lanes.
    for (uint32_t i = 0; i < program_.items.size(); ++i) {
      for (uint32_t w = program_.items[i].waits_begin; w < program_.waits_end(i); ++w) {
        const ItemWait& wait = program_.waits[w];
        FORETRACE_CHECK(!wait.on_start && wait.lag == LagTable::kZero);
        Depend(nodes_[i].last, nodes_[wait.item].last, DependencyKind::kSync);
      }
    }
  }

 private:
  // Ranks of one rank's communicator for a scope.
  std::vector<int32_t> Members(CommScope scope) const {
    std::vector<int32_t> members;
    const auto ranks = static_cast<uint32_t>(task_.gpus);
    for (uint32_t r = 0; r < ranks; ++r) {
      if (scope == CommScope::kNode && r / per_node_ != rank_ / per_node_) continue;
      if (scope == CommScope::kAcross && r % per_node_ != rank_ % per_node_) continue;
      members.push_back(static_cast<int32_t>(r));
    }
    return members;
  }

  std::string GroupName(CommScope scope) const {
    switch (scope) {
      case CommScope::kNode:
        return fmt::format("node {}", rank_ / per_node_);
      case CommScope::kAcross:
        return fmt::format("across nodes {}", rank_ % per_node_);
      default:
        return "world";
    }
  }

  void AddGroups() {
    for (const CommScope scope : {CommScope::kWorld, CommScope::kNode, CommScope::kAcross}) {
      if (scope != CommScope::kWorld && !work_.shape.table_row) continue;
      builder_.AddProcessGroup({GroupName(scope), "", Members(scope)});
    }
  }

  // A call is cut where the device work that it issues may start.
  void SetIssueLags() {
    issue_lag_.resize(program_.items.size());
    for (const Item& item : program_.items) {
      if (item.issuer != kNoItem) issue_lag_[item.issuer] = item.issue_lag;
    }
  }

  NodeIndex Add(NodeKind kind, uint8_t detail, std::string_view name, LaneIndex lane,
                SimTime duration) {
    RankTraceBuilder::NodeSpec spec;
    spec.kind = kind;
    spec.detail = detail;
    spec.name = name;
    spec.lane = lane;
    spec.duration = duration;
    return builder_.AddNode(spec);
  }

  void Depend(NodeIndex consumer, NodeIndex producer, DependencyKind kind) {
    if (producer.valid()) builder_.AddDependency(consumer, producer, kind);
  }

  std::string_view NameOf(uint32_t item) const {
    const RankTrace& rank = job_.store().ranks()[rank_];
    return job_.store().name(rank, program_.items[item].node);
  }

  uint8_t DetailOf(uint32_t item) const {
    return job_.store().ranks()[rank_].raw_detail(program_.items[item].node);
  }

  void AddCall(uint32_t index, LaneIndex lane, NodeIndex previous) {
    const Item& item = program_.items[index];
    if (item.lead > SimTime()) {
      const NodeIndex host = Add(NodeKind::kCpuOp, 0, "host", lane, item.lead);
      Depend(host, previous, DependencyKind::kControl);
      previous = host;
    }
    const SimTime lag = issue_lag_[index];
    const bool within = lag > SimTime() && lag <= item.duration;
    const NodeIndex call = Add(NodeKind::kRuntimeCall, DetailOf(index), NameOf(index), lane,
                               within ? lag : item.duration);
    Depend(call, previous, DependencyKind::kControl);
    nodes_[index] = {call, call};
    if (within) {
      nodes_[index].last =
          Add(NodeKind::kCpuOp, 0, "host: call returns", lane, item.duration - lag);
      Depend(nodes_[index].last, call, DependencyKind::kControl);
    }
  }

  // What all ranks agree on after the call that asks for it, by a loop of its own. Each on a thread
  // of its own here: the loop serves several at a time.
  void AddAgreements() {
    int64_t thread = kLoopThread;
    agreed_.resize(program_.items.size());
    for (uint32_t i = 0; i < program_.items.size(); ++i) {
      const SimTime after = issue_lag_[i] - program_.items[i].duration;
      if (issue_lag_[i] == SimTime() || after <= SimTime()) continue;
      const LaneIndex loop = builder_.AddLane(Lane::Kind::kCpuThread, thread++);
      builder_.SetLaneLabel(loop, "collectives");
      agreed_[i] = Add(NodeKind::kCpuOp, 0, "all ranks ask", loop, after);
      Depend(agreed_[i], nodes_[i].first, DependencyKind::kControl);
    }
  }

  void AddDeviceWork(uint32_t index, LaneIndex lane, NodeIndex previous) {
    const Item& item = program_.items[index];
    if (item.lead > SimTime()) {
      const NodeIndex gap = Add(NodeKind::kKernel, 0, "stream gap", lane, item.lead);
      Depend(gap, previous, DependencyKind::kControl);
      previous = gap;
    }
    const bool comm = item.kind == ItemKind::kComm;
    const NodeIndex node = Add(comm ? NodeKind::kCollective : NodeKind::kKernel, DetailOf(index),
                               NameOf(index), lane, item.duration);
    nodes_[index] = {node, node};
    Depend(node, previous, DependencyKind::kControl);
    if (item.issuer != kNoItem) {
      builder_.SetLauncher(node, nodes_[item.issuer].first);
      const NodeIndex agreed = agreed_[item.issuer];
      Depend(node, agreed.valid() ? agreed : nodes_[item.issuer].first, DependencyKind::kControl);
    }
    if (comm) SetComm(node, job_.step(index), job_.bucket(index));
  }

  void SetComm(NodeIndex node, CommStep step, Bytes bucket) {
    const CommScope scope = ScopeOf(step);
    const PlanWork::Rank& own = work_.ranks[rank_];
    CommAttr attr;
    attr.group = builder_.Intern(GroupName(scope));
    attr.group_size = static_cast<int32_t>(Members(scope).size());
    attr.dtype = DType::kFloat32;
    const Bytes largest = std::max(bucket, work_.bytes[static_cast<size_t>(step)]);
    attr.bytes_in = attr.bytes_out = largest;
    if (step != CommStep::kPooled && step != CommStep::kPooledGradient) {
      builder_.SetComm(node, attr);
      return;
    }
    // Vectors go from where the tables are to where the samples are; gradients the other way.
    std::vector<int64_t> sent(work_.ranks.size(), own.sent.count() / task_.gpus), received;
    for (const PlanWork::Rank& rank : work_.ranks) {
      received.push_back(rank.sent.count() / task_.gpus);
    }
    attr.bytes_in = own.sent;
    attr.bytes_out = own.received;
    if (step == CommStep::kPooledGradient) {
      std::swap(attr.bytes_in, attr.bytes_out);
      std::swap(sent, received);
    }
    builder_.SetComm(node, attr, sent, received);
  }

  const ShardingTask& task_;
  const ShardedJob& job_;
  const PlanWork& work_;
  const RankProgram& program_;
  uint32_t rank_;
  uint32_t per_node_;
  RankTraceBuilder& builder_;
  std::vector<SimTime> issue_lag_;
  std::vector<ItemNodes> nodes_;
  std::vector<NodeIndex> agreed_;  // by the call; where the loop does not come into it: invalid
};

}  // namespace

absl::StatusOr<TraceStore> PlanTraces(const ShardingTask& task, const ShardedJob& job,
                                      const PlanWork& work, const std::string& plan) {
  FORETRACE_CHECK(job.program().ranks.size() == static_cast<size_t>(task.gpus));
  std::vector<std::pair<RankTrace, std::unique_ptr<StringPool>>> traces;
  for (uint32_t r = 0; r < job.program().ranks.size(); ++r) {
    RankInfo info;
    info.rank = static_cast<int32_t>(r);
    info.world_size = task.gpus;
    info.source = fmt::format("{} ({})", task.file, plan);
    info.producer = "foretrace shard";
    info.has_times = false;
    info.synthetic = true;
    RankTraceBuilder builder(std::move(info));
    RankWriter(task, job, work, r, job.ranks_per_node(), builder).Write();
    RankTraceBuilder::Options options;
    options.sort_by_start = false;
    options.infer_nesting = false;
    FORETRACE_ASSIGN_OR_RETURN(RankTraceBuilder::Result built, builder.Build(options));
    traces.emplace_back(std::move(built.trace), std::move(built.strings));
  }
  return TraceStore::Assemble(std::move(traces), {});
}

}  // namespace foretrace
