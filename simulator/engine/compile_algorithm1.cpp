// The multi-GPU paper's Algorithm 1 as a preset: two streams a rank (computation and
// communication), no blocking calls, and its own rules of synchronisation. Line numbers are those
// of the paper.

#include <algorithm>

#include "simulator/engine/compile_rank.h"
#include "simulator/engine/program_builder.h"

namespace foretrace {
namespace {

// Line 21: a kernel starts at least 1 us after the previous one of its stream.
constexpr SimTime kStreamGap = SimTime::FromNs(1'000);

// All threads' calls as one timeline.
CpuTimelinePoints OneTimeline(const RankReconstruction& recording, const SyncCosts& costs) {
  CpuTimeline merged;
  for (const CpuTimeline& timeline : recording.order.timelines) {
    merged.calls.insert(merged.calls.end(), timeline.calls.begin(), timeline.calls.end());
    merged.threads.insert(merged.threads.end(), timeline.threads.begin(), timeline.threads.end());
  }
  std::sort(merged.calls.begin(), merged.calls.end());
  return recording.TimelineOf(merged, costs, true);
}

// One of the two streams, in order of issue.
void AddStream(const std::vector<NodeIndex>& issued, ProgramBuilder& builder) {
  if (issued.empty()) return;
  const RankTrace& rank = builder.rank();
  LaneProgram lane;
  lane.lane = rank.lane(issued.front());
  builder.BeginLane(lane);
  SimTime previous_end = builder.recorded_begin();
  for (const NodeIndex node : issued) {
    Item item = builder.DeviceWork(node);
    if (item.issuer == kNoItem) {
      item.lead = builder.RecordedGap(node, previous_end);
    } else {
      item.lead = kStreamGap;
      // Line 21: half of the launch call lies before the kernel.
      item.issue_lag = builder.program().items[item.issuer].duration.ScaledBy(0.5);
    }
    builder.Add(item);
    previous_end = std::max(previous_end, rank.end(node));
  }
  builder.EndLane();
}

// Lines 12 to 15: communication, and what depends on the last communication, first brings both
// streams to the same time.
void JoinStreams(const std::vector<NodeIndex>& sequence, const RankSync& sync,
                 ProgramBuilder& builder) {
  NodeIndex last_communication;
  uint32_t tail[2] = {kNoItem, kNoItem};
  bool joined = false;
  auto edge = sync.device_edges.begin();
  for (const NodeIndex node : sequence) {
    const uint32_t item = builder.item_of(node);
    const int stream = IsCommunicationKind(builder.rank().kind(node)) ? 1 : 0;
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
      builder.waits().push_back(
          {item, {tail[1 - stream], LagTable::kZero, false, false, WaitCause::kDependency}});
    }
    // The other stream keeps the joined time until it has work of its own.
    if (joined && stream == 0) joined = false;
    if (stream == 1) last_communication = node;  // lines 36 to 38
    tail[stream] = item;
  }
}

// The paper's runs hold a barrier at the beginning of each batch: a step begins when the work of
// the one before is done.
void StartStepsTogether(ProgramBuilder& builder) {
  const RankProgram& program = builder.program();
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
      builder.waits().push_back(
          {it.begin_item, {last, LagTable::kZero, false, false, WaitCause::kDependency}});
    }
  }
}

}  // namespace

CompiledRank CompileAlgorithm1(const RankInput& input, const RankReconstruction& recording) {
  ProgramBuilder builder(input);
  const RankTrace& rank = input.rank;
  const CpuTimelinePoints timeline = OneTimeline(recording, input.options.sync_costs);
  // The paper knows no blocking calls: they cost what any call costs.
  builder.AddTimeline(timeline, true, ItemKind::kCall);
  std::vector<NodeIndex> issued[2];  // computation, communication
  std::vector<NodeIndex> sequence;
  // Communication whose launch was not recorded still meets that of other ranks.
  for (uint32_t i = 0; i < rank.size(); ++i) {
    const NodeIndex node(i);
    if (!IsCommunicationKind(rank.kind(node)) || !rank.has_duration(node)) continue;
    const NodeIndex call = rank.launcher(node);
    if (!call.valid() || builder.item_of(call) == kNoItem) issued[1].push_back(node);
  }
  for (const CpuPoint& point : timeline.points) {
    if (point.is_mark) continue;
    for (const NodeIndex device : recording.index.issued_by(point.node)) {
      issued[IsCommunicationKind(rank.kind(device)) ? 1 : 0].push_back(device);
      sequence.push_back(device);
    }
  }
  for (const auto& stream : issued) AddStream(stream, builder);
  JoinStreams(sequence, recording.sync, builder);
  builder.FindIterations();
  StartStepsTogether(builder);
  return builder.Finish();
}

}  // namespace foretrace
