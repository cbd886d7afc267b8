// The multi-GPU paper's Algorithm 1 as a preset: two streams a rank (computation and
// communication), no blocking calls, and its own rules of synchronisation. Line numbers are those
// of the paper.

#include <algorithm>

#include "simulator/engine/compile_rank.h"

namespace foretrace {
namespace {

// Line 21: a kernel starts at least 1 us after the previous one of its stream.
constexpr SimTime kStreamGap = SimTime::FromNs(1'000);

}  // namespace

// All threads' calls are one timeline. The paper knows no blocking calls: they cost what any call
// costs.
CpuTimelinePoints RankCompiler::AddOneTimeline() {
  CpuTimeline merged;
  for (const CpuTimeline& timeline : recording_->order.timelines) {
    merged.calls.insert(merged.calls.end(), timeline.calls.begin(), timeline.calls.end());
    merged.threads.insert(merged.threads.end(), timeline.threads.begin(), timeline.threads.end());
  }
  std::sort(merged.calls.begin(), merged.calls.end());
  CpuTimelinePoints timeline = recording_->TimelineOf(merged, options_.sync_costs, true);
  AddTimeline(timeline, true);
  RankProgram& program = out_.program;
  for (uint32_t i = program.lanes[0].begin; i < program.lanes[0].end; ++i) {
    program.items[i].kind = ItemKind::kCall;
  }
  return timeline;
}

// One of the two streams, in order of issue.
void RankCompiler::AddStream(const std::vector<NodeIndex>& issued) {
  if (issued.empty()) return;
  RankProgram& program = out_.program;
  LaneProgram lane;
  lane.lane = rank_.lane(issued.front());
  lane.begin = static_cast<uint32_t>(program.items.size());
  const auto lane_index = static_cast<uint32_t>(program.lanes.size());
  program.lanes.push_back(lane);
  SimTime previous_end = recorded_begin_;
  for (const NodeIndex node : issued) {
    const uint32_t item = AddDeviceItem(node, lane_index, previous_end);
    previous_end = std::max(previous_end, rank_.end(node));
    if (program.items[item].issuer != kNoItem) {
      program.items[item].lead = kStreamGap;
      // Line 21: half of the launch call lies before the kernel.
      const Item& call = program.items[program.items[item].issuer];
      program.items[item].issue_lag = call.duration.ScaledBy(0.5);
    }
    program.items[item].needs_room = false;
    program.items[item].placement_share = 0;
  }
  program.lanes.back().end = static_cast<uint32_t>(program.items.size());
}

// Lines 12 to 15: communication, and what depends on the last communication, first brings both
// streams to the same time.
void RankCompiler::JoinStreams(const std::vector<NodeIndex>& sequence) {
  const RankSync& sync = recording_->sync;
  NodeIndex last_communication;
  uint32_t tail[2] = {kNoItem, kNoItem};
  bool joined = false;
  auto edge = sync.device_edges.begin();
  for (const NodeIndex node : sequence) {
    const uint32_t item = out_.item_of[node.value];
    const int stream = IsCommunicationKind(rank_.kind(node)) ? 1 : 0;
    edge = std::lower_bound(sync.device_edges.begin(), sync.device_edges.end(), node,
                            [](const SyncEdge& e, NodeIndex n) { return e.consumer < n; });
    bool depends = false;
    for (; edge != sync.device_edges.end() && edge->consumer == node; ++edge) {
      depends = depends || edge->producer == last_communication;
    }
    if (stream == 1 || (depends && last_communication.valid())) {
      joined = true;
      last_communication = NodeIndex();
    }
    if (joined && tail[1 - stream] != kNoItem) {
      waits_.push_back(
          {item, {tail[1 - stream], LagTable::kZero, false, false, WaitCause::kDependency}});
    }
    // The other stream keeps the joined time until it has work of its own.
    if (joined && stream == 0) joined = false;
    if (stream == 1) last_communication = node;  // lines 36 to 38
    tail[stream] = item;
  }
}

void RankCompiler::CompileAlgorithm1() {
  const CpuTimelinePoints timeline = AddOneTimeline();
  std::vector<NodeIndex> issued[2];  // computation, communication
  std::vector<NodeIndex> sequence;
  // Communication whose launch was not recorded still meets that of other ranks.
  for (uint32_t i = 0; i < rank_.size(); ++i) {
    const NodeIndex node(i);
    if (!IsCommunicationKind(rank_.kind(node)) || !rank_.has_duration(node)) continue;
    const NodeIndex call = rank_.launcher(node);
    if (!call.valid() || out_.item_of[call.value] == kNoItem) issued[1].push_back(node);
  }
  for (const CpuPoint& point : timeline.points) {
    if (point.is_mark) continue;
    for (const NodeIndex device : recording_->index.issued_by(point.node)) {
      issued[IsCommunicationKind(rank_.kind(device)) ? 1 : 0].push_back(device);
      sequence.push_back(device);
    }
  }
  for (const auto& stream : issued) AddStream(stream);
  JoinStreams(sequence);
  FindIterations();
  StartStepsTogether();
}

// The paper's runs hold a barrier at the beginning of each batch: a step begins when the work of
// the one before is done.
void RankCompiler::StartStepsTogether() {
  RankProgram& program = out_.program;
  for (const IterationItems& it : program.iterations) {
    if (it.begin_item == kNoItem) continue;
    for (const LaneProgram& lane : program.lanes) {
      if (lane.cpu) continue;
      uint32_t last = kNoItem;
      for (uint32_t i = lane.begin; i < lane.end; ++i) {
        const uint32_t issuer = program.items[i].issuer;
        if (issuer != kNoItem && issuer >= it.begin_item) break;
        last = i;
      }
      if (last == kNoItem) continue;
      waits_.push_back(
          {it.begin_item, {last, LagTable::kZero, false, false, WaitCause::kDependency}});
    }
  }
}

}  // namespace foretrace
