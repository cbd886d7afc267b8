#include "simulator/reconstruct/sync_rules.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "simulator/reconstruct/declared_edges.h"

namespace foretrace {
namespace {

// Recordings of older profilers have microsecond resolution.
constexpr SimTime kClockTolerance = SimTime::FromNs(1000);
constexpr SimTime kTight = SimTime::FromNs(10'000);
// A call that returned so long before work ended did not wait for it; less is the distance between
// the clocks of CPU and device.
constexpr SimTime kReturnedBefore = SimTime::FromNs(20'000);
// A stream wait that fits nothing is kept for this many launches before it is given up.
constexpr int kWaitPatience = 8;

struct PendingWait {
  NodeIndex call;
  uint32_t unnamed = 0;             // in the list of unnamed waits
  LaneIndex stream;                 // that waits; invalid when the recording does not say
  bool explicit_comm_wait = false;  // lies in a communication op that issues nothing
  bool launch_since_collective = false;
  LaneIndex stream_before;
  int launches_left = kWaitPatience;
};

struct TimelineState {
  LaneIndex current_stream;            // of the last non-communication work
  LaneIndex previous_stream;           // the one before, where it differs
  LaneIndex last_used_stream;          // of any work
  std::vector<NodeIndex> outstanding;  // collectives nobody waited for yet, in order of issue
  bool launch_since_collective = false;
  std::vector<PendingWait> waits;
};

class Inference {
 public:
  // `earlier`: waits that are decided already.
  Inference(const RankTrace& rank, const DeviceIndex& index, const IssueOrder& order,
            const EarlierEvents& earlier)
      : rank_(rank),
        index_(index),
        earlier_(earlier),
        tail_(rank.lanes().size()),
        pending_exact_(rank.lanes().size()),
        timeline_of_lane_(rank.lanes().size(), -1) {
    states_.resize(order.timelines.size());
    for (size_t t = 0; t < order.timelines.size(); ++t) {
      for (LaneIndex lane : order.timelines[t].threads) {
        timeline_of_lane_[lane.value] = static_cast<int>(t);
      }
    }
  }

  RankSync Run() {
    AddDataDependencies();
    AddDeclaredDependencies();
    for (const SyncEdge& e : earlier_.edges) {
      if (rank_.kind(e.consumer) == NodeKind::kRuntimeCall) {
        AddBlockEdge(e.consumer, e.producer, e.rule);
      } else {
        AddDeviceEdge(e.consumer, e.producer, e.rule);
      }
    }
    FindNamedRecords();
    for (uint32_t i = 0; i < rank_.size(); ++i) {
      const NodeIndex n(i);
      if (rank_.kind(n) == NodeKind::kRuntimeCall) OnCall(n);
    }
    for (const UnnamedWait& wait : unnamed_) {
      if (!wait.blocks && !wait.resolved && !earlier_.Decides(wait.call)) {
        ++result_.unresolved_waits;
      }
    }
    SortEdges(result_.device_edges);
    SortEdges(result_.block_edges);
    return std::move(result_);
  }

  std::vector<UnnamedWait>& unnamed() { return unnamed_; }

 private:
  bool Feasible(NodeIndex producer, NodeIndex consumer) const {
    return rank_.end(producer) <= rank_.start(consumer) + kClockTolerance;
  }

  // Adds the edge unless the recording contradicts it.
  bool AddDeviceEdge(NodeIndex consumer, NodeIndex producer, SyncRule rule) {
    if (!producer.valid() || producer == consumer) return false;
    RuleCount& count = result_.rules[static_cast<int>(rule)];
    ++count.applied;
    if (!Feasible(producer, consumer)) {
      ++count.violations;
      return false;
    }
    if (rank_.start(consumer) - rank_.end(producer) <= kTight) ++count.tight;
    result_.device_edges.push_back({consumer, producer, rule});
    return true;
  }

  // `certain`: kept whatever the recording says, which has been asked already.
  void AddBlockEdge(NodeIndex call, NodeIndex producer, SyncRule rule, bool certain = false) {
    if (!producer.valid()) return;
    RuleCount& count = result_.rules[static_cast<int>(rule)];
    ++count.applied;
    const SimTime slack = rank_.end(call) - rank_.end(producer);
    if (slack < -kClockTolerance) {
      ++count.violations;
      if (slack < -kReturnedBefore && !certain) return;
    } else if (rank_.end(producer) > rank_.start(call) && slack <= SimTime::FromNs(30'000)) {
      ++count.tight;
    }
    result_.block_edges.push_back({call, producer, rule});
  }

  // --- dependencies that the files declare ------------------------------------------------------

  void AddDataDependencies() {
    for (const SyncEdge& e : DataDependencies(rank_, index_)) {
      if (!AddDeviceEdge(e.consumer, e.producer, e.rule)) continue;
      const auto [it, inserted] = first_consumer_.emplace(e.producer.value, e.consumer.value);
      if (!inserted) it->second = std::min(it->second, e.consumer.value);
    }
  }

  void AddDeclaredDependencies() {
    for (const SyncEdge& e : DeclaredDependencies(rank_)) {
      AddDeviceEdge(e.consumer, e.producer, e.rule);
    }
  }

  // Waits of newer profiles name the record call and its stream; the record call itself names none.
  void FindNamedRecords() {
    for (uint32_t i = 0; i < rank_.size(); ++i) {
      const NodeIndex n(i);
      if (rank_.kind(n) != NodeKind::kRuntimeCall) continue;
      const SyncAttr* attr = rank_.sync(n);
      if (attr == nullptr) continue;
      if (rank_.runtime_call(n) == RuntimeCall::kEventRecord) {
        events_are_named_ = events_are_named_ || attr->event >= 0;
      } else if (attr->waits_for_correlation >= 0) {
        events_are_named_ = true;
        if (attr->waits_for_stream.valid()) {
          record_stream_[attr->waits_for_correlation] = attr->waits_for_stream;
        }
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
    for (const NodeIndex device : index_.issued_by(call)) OnIssue(state, call, device);
  }

  void OnEventRecord(TimelineState& state, NodeIndex call) {
    const SyncAttr* attr = rank_.sync(call);
    const auto named = record_stream_.find(static_cast<int64_t>(rank_.source_id(call)));
    const LaneIndex stream = named != record_stream_.end()  ? named->second
                             : attr && attr->stream.valid() ? attr->stream
                                                            : state.last_used_stream;
    if (!stream.valid()) return;
    const NodeIndex tail = tail_[stream.value];
    if (attr && attr->event >= 0) event_tail_[attr->event] = tail;
    record_tail_[static_cast<int64_t>(rank_.source_id(call))] = tail;
    last_record_tail_ = tail;
  }

  // The work an event-based call names; invalid when the recording does not say.
  NodeIndex NamedEventTail(const SyncAttr& attr, bool& named) const {
    named = false;
    if (attr.waits_for_correlation >= 0) {
      if (auto it = record_tail_.find(attr.waits_for_correlation); it != record_tail_.end()) {
        named = true;
        return it->second;
      }
    }
    if (attr.event >= 0) {
      if (auto it = event_tail_.find(attr.event); it != event_tail_.end()) {
        named = true;
        return it->second;
      }
    }
    // A recording that names events and does not have this one began after it was recorded.
    named = attr.event >= 0 && events_are_named_;
    return NodeIndex();
  }

  uint32_t AddUnnamed(NodeIndex call, bool blocks, bool resolved) {
    const int timeline = timeline_of_lane_[rank_.lane(call).value];
    unnamed_.push_back({call, static_cast<uint32_t>(timeline), blocks, resolved});
    return static_cast<uint32_t>(unnamed_.size() - 1);
  }

  void OnStreamWait(TimelineState& state, NodeIndex call) {
    if (const SyncAttr* attr = rank_.sync(call); attr && attr->stream.valid()) {
      bool named = false;
      const NodeIndex producer = NamedEventTail(*attr, named);
      if (named) {
        if (producer.valid()) pending_exact_[attr->stream.value].push_back(producer);
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
        for (const NodeIndex tail : tail_) AddBlockEdge(call, tail, SyncRule::kEventId);
        break;
      case RuntimeCall::kEventSynchronize: {
        bool named = false;
        const NodeIndex producer = attr ? NamedEventTail(*attr, named) : NodeIndex();
        if (named) {
          AddBlockEdge(call, producer, SyncRule::kEventId);
        } else {
          BlockOnUnnamed(call, last_record_tail_);
        }
        break;
      }
      default:
        if (attr && attr->stream.valid()) {
          AddBlockEdge(call, tail_[attr->stream.value], SyncRule::kEventId);
        } else {
          BlockOnUnnamed(call, state.last_used_stream.valid() ? tail_[state.last_used_stream.value]
                                                              : NodeIndex());
        }
    }
  }

  void BlockOnUnnamed(NodeIndex call, NodeIndex producer) {
    AddUnnamed(call, true, producer.valid());
    if (!earlier_.Decides(call)) AddBlockEdge(call, producer, SyncRule::kBlockingLastStream);
  }

  void OnIssue(TimelineState& state, NodeIndex call, NodeIndex device) {
    const LaneIndex stream = rank_.lane(device);
    bool exact = false;
    for (const NodeIndex producer : pending_exact_[stream.value]) {
      exact = true;
      if (rank_.lane(producer) != stream) AddDeviceEdge(device, producer, SyncRule::kEventId);
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
    if (index_.HoldsUntilCopied(call)) {
      AddBlockEdge(call, device, SyncRule::kEventId, true);
    }
  }

  void AddCollectiveInput(TimelineState& state, NodeIndex device) {
    for (const LaneIndex stream : {state.current_stream, state.previous_stream}) {
      if (!stream.valid() || stream == rank_.lane(device)) continue;
      const NodeIndex producer = tail_[stream.value];
      if (!producer.valid()) continue;
      // The stream used last may be a copy stream; then the one before is the current stream.
      if (stream == state.current_stream && state.previous_stream.valid() &&
          !Feasible(producer, device)) {
        continue;
      }
      AddDeviceEdge(device, producer, SyncRule::kCollectiveInput);
      return;
    }
  }

  // --- stream waits without event ids ---------------------------------------------------------

  void ResolveWaits(TimelineState& state, NodeIndex device) {
    if (state.waits.empty()) return;
    std::vector<PendingWait> still_pending;
    for (PendingWait& wait : state.waits) {
      if (ResolveWait(state, wait, device)) {
        unnamed_[wait.unnamed].resolved = true;
      } else if (--wait.launches_left > 0) {
        still_pending.push_back(wait);
      }
    }
    state.waits.swap(still_pending);
  }

  bool ResolveWait(TimelineState& state, const PendingWait& wait, NodeIndex device) {
    const LaneIndex stream = rank_.lane(device);
    if (wait.stream.valid() && wait.stream != stream) return false;
    const bool stream_changed = wait.stream_before.valid() && wait.stream_before != stream;
    if (stream_changed && !wait.explicit_comm_wait) {
      if (JoinStream(wait.stream_before, device)) return true;
      return JoinCollective(state, wait, device);
    }
    if (JoinCollective(state, wait, device)) return true;
    if (wait.explicit_comm_wait) return false;
    if (stream_changed) return JoinStream(wait.stream_before, device);
    return state.previous_stream.valid() && JoinStream(state.previous_stream, device);
  }

  bool JoinStream(LaneIndex other, NodeIndex device) {
    if (other == rank_.lane(device)) return false;
    const NodeIndex producer = tail_[other.value];
    if (!producer.valid() || !Feasible(producer, device)) return false;
    return AddDeviceEdge(device, producer, SyncRule::kStreamHandOff);
  }

  bool JoinCollective(TimelineState& state, const PendingWait& wait, NodeIndex device) {
    const NodeIndex chosen = ChooseCollective(state, wait, device);
    if (!chosen.valid()) return false;
    AddDeviceEdge(device, chosen, SyncRule::kCollectiveWait);
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
      if (rank_.lane(c) != rank_.lane(device) && Feasible(c, device)) candidates.push_back(c);
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
  RankSync result_;
  std::vector<UnnamedWait> unnamed_;
  bool events_are_named_ = false;
  std::vector<NodeIndex> tail_;  // by lane: the last device node issued
  std::vector<std::vector<NodeIndex>> pending_exact_;
  std::vector<int> timeline_of_lane_;
  std::vector<TimelineState> states_;
  absl::flat_hash_map<int64_t, NodeIndex> event_tail_;
  absl::flat_hash_map<int64_t, NodeIndex> record_tail_;
  absl::flat_hash_map<int64_t, LaneIndex> record_stream_;  // by correlation of the record call
  NodeIndex last_record_tail_;
  absl::flat_hash_map<uint32_t, uint32_t> first_consumer_;
};

}  // namespace

RankSync InferSync(const RankTrace& rank, const DeviceIndex& index, const IssueOrder& order) {
  EarlierEvents earlier;
  Inference call_by_call(rank, index, order, earlier);
  RankSync sync = call_by_call.Run();
  const std::vector<UnnamedWait> waits = std::move(call_by_call.unnamed());
  earlier = FindEarlierEvents(rank, index, order, waits, sync.device_edges, sync.block_edges);
  if (!earlier.decided.empty()) sync = Inference(rank, index, order, earlier).Run();
  sync.held = FindHeldWaits(rank, index, order, waits, sync.device_edges, sync.block_edges);
  sync.after_unrecorded = FindAfterUnrecorded(rank, sync.device_edges);
  return sync;
}

}  // namespace foretrace
