#include "simulator/reconstruct/call_rules.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "simulator/reconstruct/call_rule_state.h"
#include "simulator/reconstruct/declared_edges.h"
#include "simulator/reconstruct/edge_list.h"
#include "simulator/reconstruct/graph_branches.h"
#include "simulator/reconstruct/named_events.h"
#include "simulator/reconstruct/stream_joins.h"

namespace foretrace {
namespace {

class Inference {
 public:
  Inference(const RankTrace& rank, const DeviceIndex& index, const IssueOrder& order,
            const EarlierEvents& earlier)
      : rank_(rank),
        index_(index),
        earlier_(earlier),
        edges_(rank),
        events_(rank),
        tail_(rank.lanes().size()),
        joins_(rank),
        pending_exact_(rank.lanes().size()),
        branches_(rank.lanes().size()),
        timeline_of_lane_(rank.lanes().size(), -1) {
    states_.resize(order.timelines.size());
    for (size_t t = 0; t < order.timelines.size(); ++t) {
      for (LaneIndex lane : order.timelines[t].threads) {
        timeline_of_lane_[lane.value] = static_cast<int>(t);
      }
    }
  }

  CallRules Run() {
    AddDataDependencies();
    AddEdges(DeclaredDependencies(rank_));
    AddEdges(FindGraphBranches(rank_, index_));
    AddEdges(earlier_.edges);
    for (uint32_t i = 0; i < rank_.size(); ++i) {
      const NodeIndex n(i);
      if (rank_.kind(n) == NodeKind::kRuntimeCall) OnCall(n);
    }
    for (const UnnamedWait& wait : result_.unnamed) {
      if (!wait.blocks && !wait.resolved && !wait.decided) ++result_.sync.unresolved_waits;
    }
    edges_.MoveTo(result_.sync);
    return std::move(result_);
  }

 private:
  // --- dependencies that the files declare ------------------------------------------------------

  void AddDataDependencies() {
    for (const SyncEdge& e : DataDependencies(rank_, index_)) {
      if (!edges_.AddDeviceEdge(e.consumer, e.producer, e.rule)) continue;
      const auto [it, inserted] = first_consumer_.emplace(e.producer.value, e.consumer.value);
      if (!inserted) it->second = std::min(it->second, e.consumer.value);
    }
  }

  void AddEdges(const std::vector<SyncEdge>& edges) {
    for (const SyncEdge& e : edges) {
      if (rank_.kind(e.consumer) == NodeKind::kRuntimeCall) {
        edges_.AddBlockEdge(e.consumer, e.producer, e.rule);
      } else {
        edges_.AddDeviceEdge(e.consumer, e.producer, e.rule);
      }
    }
  }

  // --- calls in order of issue ----------------------------------------------------------------

  void OnCall(NodeIndex call) {
    const int timeline = timeline_of_lane_[rank_.lane(call).value];
    if (timeline < 0) return;
    TimelineState& state = states_[timeline];
    switch (rank_.runtime_call(call)) {
      case RuntimeCall::kEventRecord:
        OnEventRecord(state, call);
        break;
      case RuntimeCall::kStreamWaitEvent:
        OnStreamWait(state, call);
        break;
      case RuntimeCall::kStreamSynchronize:
      case RuntimeCall::kDeviceSynchronize:
      case RuntimeCall::kEventSynchronize:
        OnSynchronize(state, call);
        break;
      default:
        break;
    }
    if (LaunchesBranches(rank_, index_, call)) {
      OnGraph(state, call);
    } else {
      for (const NodeIndex device : index_.issued_by(call)) OnIssue(state, call, device);
    }
  }

  void OnEventRecord(TimelineState& state, NodeIndex call) {
    LaneIndex stream = events_.StreamOf(call);
    if (!stream.valid()) stream = state.last_used_stream;
    if (!stream.valid()) return;
    last_record_tail_ = tail_[stream.value];
    // An event comes after the waits that its stream has made, also where no work followed them.
    std::vector<NodeIndex> held = pending_exact_[stream.value];
    for (const NodeIndex branch : branches_[stream.value]) AddHeld(branch, held);
    if (last_record_tail_.valid()) AddHeld(last_record_tail_, held);
    events_.Record(call, std::move(held));
  }

  // Of the work of one stream the latest is enough.
  void AddHeld(NodeIndex producer, std::vector<NodeIndex>& held) const {
    const auto same = std::ranges::find_if(
        held, [&](NodeIndex other) { return rank_.lane(other) == rank_.lane(producer); });
    if (same == held.end()) {
      held.push_back(producer);
    } else {
      *same = std::max(*same, producer);
    }
  }

  UnnamedWait WaitAt(NodeIndex call, bool blocks, bool resolved) const {
    const int timeline = timeline_of_lane_[rank_.lane(call).value];
    return {call, static_cast<uint32_t>(timeline), blocks, resolved, earlier_.Decides(call)};
  }

  uint32_t AddUnnamed(NodeIndex call, bool blocks, bool resolved) {
    result_.unnamed.push_back(WaitAt(call, blocks, resolved));
    return static_cast<uint32_t>(result_.unnamed.size() - 1);
  }

  void OnStreamWait(TimelineState& state, NodeIndex call) {
    if (const SyncAttr* attr = rank_.sync(call); attr && attr->stream.valid()) {
      if (const auto held = events_.HeldBy(*attr)) {
        if (held->empty()) result_.before_recording.push_back(WaitAt(call, false, true));
        for (const NodeIndex producer : *held)
          AddHeld(producer, pending_exact_[attr->stream.value]);
        return;
      }
    }
    if (index_.within_issuing_comm_op(call)) return;  // the collective's own
    const uint32_t unnamed = AddUnnamed(call, false, false);
    if (earlier_.Decides(call)) return;
    PendingWait wait;
    wait.call = call;
    wait.unnamed = unnamed;
    if (const SyncAttr* attr = rank_.sync(call)) wait.stream = attr->stream;
    wait.explicit_comm_wait = index_.within_comm_op(call);
    wait.launch_since_collective = state.launch_since_collective;
    wait.stream_before = state.current_stream;
    state.waits.push_back(wait);
  }

  void OnSynchronize(TimelineState& state, NodeIndex call) {
    const SyncAttr* attr = rank_.sync(call);
    switch (rank_.runtime_call(call)) {
      case RuntimeCall::kDeviceSynchronize:
        for (const NodeIndex tail : tail_) edges_.AddBlockEdge(call, tail, SyncRule::kEventId);
        break;
      case RuntimeCall::kEventSynchronize: {
        const auto held = attr ? events_.HeldBy(*attr) : std::nullopt;
        if (held.has_value()) {
          for (const NodeIndex producer : *held) {
            edges_.AddBlockEdge(call, producer, SyncRule::kEventId);
          }
          if (held->empty()) result_.before_recording.push_back(WaitAt(call, true, true));
        } else {
          BlockOnUnnamed(call, last_record_tail_);
        }
        break;
      }
      default:
        if (attr && attr->stream.valid()) {
          edges_.AddBlockEdge(call, tail_[attr->stream.value], SyncRule::kEventId);
          BlockOnBranches(call, attr->stream);
        } else if (state.last_used_stream.valid()) {
          BlockOnUnnamed(call, tail_[state.last_used_stream.value]);
          if (!earlier_.Decides(call)) BlockOnBranches(call, state.last_used_stream);
        } else {
          BlockOnUnnamed(call, NodeIndex());
        }
    }
  }

  void BlockOnUnnamed(NodeIndex call, NodeIndex producer) {
    AddUnnamed(call, true, producer.valid());
    if (earlier_.Decides(call)) return;
    const SyncRule rule = SyncRule::kBlockingLastStream;
    edges_.AddBlockEdge(call, producer, rule);
    if (producer.valid()) result_.chosen.push_back({call, {call, producer, rule}});
  }

  void BlockOnBranches(NodeIndex call, LaneIndex stream) {
    for (const NodeIndex last : branches_[stream.value]) {
      edges_.AddBlockEdge(call, last, SyncRule::kGraphBranch);
    }
  }

  // A graph begins after what its launch's stream holds, and that stream goes on when all of it is
  // done. The stream is that of the work that began first, which the others branch off from.
  void OnGraph(TimelineState& state, NodeIndex call) {
    const auto issued = index_.issued_by(call);
    const LaneIndex own = rank_.lane(issued.front());
    std::vector<NodeIndex> before = std::move(branches_[own.value]);
    if (tail_[own.value].valid()) before.push_back(tail_[own.value]);
    branches_[own.value] = before;
    OnIssue(state, call, issued.front());
    std::vector<LaneIndex> others;
    for (const NodeIndex device : issued.subspan(1)) {
      const LaneIndex stream = rank_.lane(device);
      if (stream != own && std::find(others.begin(), others.end(), stream) == others.end()) {
        others.push_back(stream);
        for (const NodeIndex producer : before) {
          if (rank_.lane(producer) == stream) continue;
          edges_.AddDeviceEdge(device, producer, SyncRule::kGraphBranch);
        }
      }
      tail_[stream.value] = device;
      joins_.Issued(device);
    }
    for (const LaneIndex stream : others) branches_[own.value].push_back(tail_[stream.value]);
  }

  void OnIssue(TimelineState& state, NodeIndex call, NodeIndex device) {
    const LaneIndex stream = rank_.lane(device);
    for (const NodeIndex branch : branches_[stream.value]) {
      if (rank_.lane(branch) != stream) {
        edges_.AddDeviceEdge(device, branch, SyncRule::kGraphBranch);
      }
    }
    branches_[stream.value].clear();
    bool exact = false;
    for (const NodeIndex producer : pending_exact_[stream.value]) {
      exact = true;
      if (rank_.lane(producer) != stream)
        edges_.AddDeviceEdge(device, producer, SyncRule::kEventId);
    }
    pending_exact_[stream.value].clear();
    if (IsCommunicationKind(rank_.kind(device))) {
      if (!exact) AddCollectiveInput(state, device);
      state.outstanding.push_back(device);
      state.launch_since_collective = false;
    } else {
      ResolveWaits(state, device);
      if (stream != state.current_stream) {
        state.previous_stream = state.current_stream;
        state.current_stream = stream;
      }
      state.launch_since_collective = true;
    }
    state.last_used_stream = stream;
    tail_[stream.value] = device;
    joins_.Issued(device);
    if (index_.HoldsUntilCopied(call)) {
      edges_.AddBlockEdge(call, device, SyncRule::kEventId, true);
    }
  }

  void AddCollectiveInput(TimelineState& state, NodeIndex device) {
    for (const LaneIndex stream : {state.current_stream, state.previous_stream}) {
      if (!stream.valid() || stream == rank_.lane(device)) continue;
      const NodeIndex producer = tail_[stream.value];
      if (!producer.valid()) continue;
      // The stream used last may be a copy stream; then the one before is the current stream.
      if (stream == state.current_stream && state.previous_stream.valid() &&
          !edges_.Feasible(producer, device)) {
        continue;
      }
      edges_.AddDeviceEdge(device, producer, SyncRule::kCollectiveInput);
      return;
    }
  }

  // --- stream waits without event ids ---------------------------------------------------------

  void ResolveWaits(TimelineState& state, NodeIndex device) {
    if (state.waits.empty()) return;
    std::vector<PendingWait> still_pending;
    const LaneIndex stream = rank_.lane(device);
    for (PendingWait& wait : state.waits) {
      // Who is held back is the stream's next work: later work shows nothing that it does not.
      const bool tried =
          std::find(wait.tried.begin(), wait.tried.end(), stream) != wait.tried.end();
      if (!tried && ResolveWait(state, wait, device)) {
        result_.unnamed[wait.unnamed].resolved = true;
      } else if (--wait.launches_left > 0) {
        if (!tried) wait.tried.push_back(stream);
        still_pending.push_back(wait);
      }
    }
    state.waits.swap(still_pending);
  }

  bool ResolveWait(TimelineState& state, PendingWait& wait, NodeIndex device) {
    const LaneIndex stream = rank_.lane(device);
    if (wait.stream.valid() && wait.stream != stream) return false;
    const bool stream_changed = wait.stream_before.valid() && wait.stream_before != stream;
    if (wait.only_forks) return stream_changed && JoinStream(wait, wait.stream_before, device);
    if (stream_changed && !wait.explicit_comm_wait) {
      if (JoinStream(wait, wait.stream_before, device)) return true;
      return !wait.only_forks && JoinCollective(state, wait, device);
    }
    if (JoinCollective(state, wait, device)) return true;
    if (wait.explicit_comm_wait) return false;
    if (stream_changed) return JoinStream(wait, wait.stream_before, device);
    return state.previous_stream.valid() && JoinStream(wait, state.previous_stream, device);
  }

  bool JoinStream(PendingWait& wait, LaneIndex other, NodeIndex device) {
    if (other == rank_.lane(device)) return false;
    const NodeIndex producer = joins_.HeldAt(wait.call, other);
    if (!producer.valid() || !edges_.Feasible(producer, device)) return false;
    if (!joins_.Join(rank_.lane(device), producer)) {  // then the wait is another stream's
      wait.only_forks = true;
      result_.unnamed[wait.unnamed].resolved = true;
      return false;
    }
    result_.chosen.push_back({wait.call, {device, producer, SyncRule::kStreamHandOff}});
    return edges_.AddDeviceEdge(device, producer, SyncRule::kStreamHandOff);
  }

  bool JoinCollective(TimelineState& state, const PendingWait& wait, NodeIndex device) {
    const NodeIndex chosen = ChooseCollective(state, wait, device);
    if (!chosen.valid()) return false;
    edges_.AddDeviceEdge(device, chosen, SyncRule::kCollectiveWait);
    result_.chosen.push_back({wait.call, {device, chosen, SyncRule::kCollectiveWait}});
    // Collectives of one stream end in order: whoever waits for one has waited for those before it.
    std::erase_if(state.outstanding,
                  [&](NodeIndex c) { return rank_.lane(c) == rank_.lane(chosen) && c <= chosen; });
    return true;
  }

  // Only collectives that the wait can have seen: issued before it.
  NodeIndex ChooseCollective(const TimelineState& state, const PendingWait& wait,
                             NodeIndex device) const {
    std::vector<NodeIndex> candidates;
    for (const NodeIndex c : state.outstanding) {
      if (rank_.launcher(c).valid() && rank_.start(rank_.launcher(c)) > rank_.start(wait.call)) {
        continue;
      }
      if (rank_.lane(c) != rank_.lane(device) && edges_.Feasible(c, device))
        candidates.push_back(c);
    }
    if (candidates.empty()) return NodeIndex();
    // Tensor ids: the one whose output is consumed soonest from here on.
    NodeIndex by_data;
    uint32_t soonest = NodeIndex::kNone;
    for (const NodeIndex c : candidates) {
      const auto it = first_consumer_.find(c.value);
      if (it != first_consumer_.end() && it->second >= device.value && it->second < soonest) {
        soonest = it->second;
        by_data = c;
      }
    }
    if (by_data.valid()) return by_data;
    if (!wait.launch_since_collective && candidates.back() == state.outstanding.back()) {
      return candidates.back();
    }
    return candidates.front();
  }

  const RankTrace& rank_;
  const DeviceIndex& index_;
  const EarlierEvents& earlier_;
  EdgeList edges_;
  NamedEvents events_;
  CallRules result_;
  std::vector<NodeIndex> tail_;  // by lane: the last device node issued
  StreamJoins joins_;
  std::vector<std::vector<NodeIndex>> pending_exact_;
  // By lane: last work on other streams of the graph that the lane's last launch issued.
  std::vector<std::vector<NodeIndex>> branches_;
  std::vector<int> timeline_of_lane_;
  std::vector<TimelineState> states_;
  NodeIndex last_record_tail_;
  absl::flat_hash_map<uint32_t, uint32_t> first_consumer_;
};

}  // namespace

CallRules ApplyCallRules(const RankTrace& rank, const DeviceIndex& index, const IssueOrder& order,
                         const EarlierEvents& earlier) {
  return Inference(rank, index, order, earlier).Run();
}

}  // namespace foretrace
