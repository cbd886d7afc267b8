// A rank by everything that its recording implies: timelines of calls with their overheads, streams
// in order, waits of synchronisation, launch queues and room on the device.

#include <algorithm>
#include <array>
#include <vector>

#include "simulator/engine/compile_rank.h"
#include "simulator/engine/lane_lists.h"
#include "simulator/engine/program_builder.h"
#include "simulator/trace/device_units.h"

namespace foretrace {
namespace {

// Blocks of a kernel, and of a copy within the device, are placed wave by wave; other streams find
// room when its last wave starts, kernels of a stream with priority at once.
void SetOccupancy(const RankTrace& rank, bool priority, Item& item) {
  item.copy_engine = !OnMultiprocessors(rank, item.node);
  if (item.copy_engine) return;
  const NodeKind kind = rank.kind(item.node);
  item.needs_room = !(priority && kind == NodeKind::kKernel);
  const bool placed = kind == NodeKind::kKernel || kind == NodeKind::kMemcpy;
  const uint32_t waves = placed ? rank.waves_milli(item.node) : 0;
  if (waves <= 1000) return;
  const double share = 1.0 - 1000.0 / static_cast<double>(waves);
  item.placement_share = static_cast<uint16_t>(share * 65535.0);
}

// A kernel that was launched to begin while the one before it ends waits for that end before it
// reads what that one wrote (CUDA programming guide, "Programmatic Dependent Launch"): what it took
// after the end is its own.
void CountFromPrevious(const RankTrace& rank, SimTime previous_end, Item& item) {
  if (item.kind != ItemKind::kDevice || rank.start(item.node) >= previous_end) return;
  item.lead = SimTime();
  if (item.source == EstimateSource::kRecorded && !IsCommunicationKind(rank.kind(item.node))) {
    item.duration = std::max(SimTime(), rank.end(item.node) - previous_end);
  }
}

void AddStream(std::span<const NodeIndex> nodes, const Latencies& latencies, bool priority,
               ProgramBuilder& builder) {
  const RankTrace& rank = builder.rank();
  SimTime previous_end = builder.recorded_begin();
  NodeIndex previous;
  for (const NodeIndex node : nodes) {
    Item item = builder.DeviceWork(node);
    if (item.issuer == kNoItem) {
      item.lead = builder.RecordedGap(node, previous_end);
    } else {
      item.issue_lag = latencies.launch_of(LaunchClassOf(rank, node));
      // The first work of a stream has nothing to keep a gap from.
      if (previous.valid()) {
        item.lead = latencies.gap_after(rank.kind(previous));
        CountFromPrevious(rank, previous_end, item);
      }
    }
    SetOccupancy(rank, priority, item);
    builder.Add(item);
    previous_end = std::max(previous_end, rank.end(node));
    previous = node;
  }
}

void AddStreams(const Latencies& latencies, const std::vector<bool>& priority,
                ProgramBuilder& builder) {
  const RankTrace& rank = builder.rank();
  const LaneLists streams(
      rank, [&](NodeIndex n) { return IsDeviceKind(rank.kind(n)) && rank.has_duration(n); });
  for (uint32_t s = 0; s < rank.lanes().size(); ++s) {
    if (streams.of(LaneIndex(s)).empty()) continue;
    LaneProgram lane;
    lane.lane = LaneIndex(s);
    builder.BeginLane(lane);
    AddStream(streams.of(LaneIndex(s)), latencies, priority[s], builder);
    builder.EndLane();
  }
}

// Kernels wait while kernels of other streams still have blocks to place, where the trace knows how
// many waves of blocks each has. That needs at least two streams, and a kernel that fills the
// device.
bool Contends(const RankProgram& program) {
  size_t streams = 0;
  bool fills = false;
  for (const LaneProgram& lane : program.lanes) {
    if (lane.cpu) continue;
    bool on_multiprocessors = false;
    for (uint32_t i = lane.begin; i < lane.end; ++i) {
      on_multiprocessors = on_multiprocessors || !program.items[i].copy_engine;
      fills = fills || program.items[i].placement_share > 0;
    }
    if (on_multiprocessors) ++streams;
  }
  return fills && streams > 1;
}

// What followed something from before the recording goes on (a blocking call ends, other items
// begin) no earlier than it did, counted from `origin`. RepeatStep leaves waits for a start out.
void KeepAsRecorded(uint32_t item, SimTime at, uint32_t origin, ProgramBuilder& builder) {
  RankProgram& program = builder.program();
  if (item == kNoItem || item == origin) return;
  const ItemKind kind = program.items[item].kind;
  const SimTime after = at - builder.rank().start(program.items[origin].node);
  const uint32_t lag = program.lags.Add(std::max(SimTime(), after));
  const WaitCause cause = kind == ItemKind::kBlocking ? WaitCause::kCpuBlock
                          : kind == ItemKind::kCall   ? WaitCause::kLaunchQueue
                                                      : WaitCause::kDependency;
  builder.waits().push_back({item, {origin, lag, true, kind == ItemKind::kBlocking, cause}});
}

void KeepUnrecordedWaits(ProgramBuilder& builder) {
  const RankTrace& rank = builder.rank();
  RankCompileReport& report = builder.report();
  if (report.sync.after_unrecorded.empty()) return;
  const uint32_t first = builder.program().lanes.front().begin;
  for (const HeldWait& wait : report.sync.after_unrecorded) {
    const bool blocks = rank.kind(wait.held) == NodeKind::kRuntimeCall;
    // Too late for work of before: whatever it is takes so long from the call on.
    const uint32_t call = builder.item_of(wait.call);
    const bool own = call != kNoItem && report.sync.IsTooLate(rank, wait);
    KeepAsRecorded(builder.item_of(wait.held), blocks ? rank.end(wait.held) : rank.start(wait.held),
                   own ? call : first, builder);
    if (own) continue;
    report.in_flight_at_start = true;
    report.partial_steps.insert(rank.iteration_at(rank.start(wait.call)));
  }
}

// Device edges and those of blocking calls may be mixed.
std::vector<WaitOfItem> WaitsOf(const std::vector<SyncEdge>& edges, const RankInput& input,
                                ProgramBuilder& builder) {
  const RankTrace& rank = input.rank;
  LagTable& lag_table = builder.program().lags;
  std::array<uint32_t, kEventClasses> lags;
  for (size_t c = 0; c < kEventClasses; ++c) {
    lags[c] = lag_table.Add(input.latencies.event_of(static_cast<EventClass>(c)));
  }
  const uint32_t resume = lag_table.Add(input.options.sync_costs.resume);
  std::vector<WaitOfItem> waits;
  waits.reserve(edges.size());
  for (const SyncEdge& e : edges) {
    const bool blocks = rank.kind(e.consumer) == NodeKind::kRuntimeCall;
    const uint32_t consumer = builder.item_of(e.consumer);
    const uint32_t producer = builder.item_of(e.producer);
    if (consumer == kNoItem || producer == kNoItem) continue;
    if (blocks) {
      waits.push_back({consumer, {producer, resume, false, true, WaitCause::kCpuBlock}});
      continue;
    }
    const EventClass event = EventClassOf(rank.kind(e.producer), rank.kind(e.consumer));
    waits.push_back(
        {consumer,
         {producer, lags[static_cast<size_t>(event)], false, false, WaitCause::kDependency}});
  }
  return waits;
}

void AddLaunchQueueWaits(const std::vector<CpuTimelinePoints>& timelines,
                         const RankReconstruction& recording, ProgramBuilder& builder) {
  RankProgram& program = builder.program();
  program.launch_queue_depth = recording.launch_queue_depth;
  AddLaunchQueue(program, builder.waits());
  std::vector<bool> waits_for_recorded(program.items.size(), false);
  for (const auto& [item, wait] : builder.waits()) {
    if (wait.cause == WaitCause::kLaunchQueue) waits_for_recorded[item] = true;
  }
  // What waited for work of before the recording.
  for (const CpuTimelinePoints& timeline : timelines) {
    for (const CpuPoint& p : timeline.points) {
      if (!p.queue_full) continue;
      const uint32_t launch = builder.item_of(p.node);
      if (launch == kNoItem || waits_for_recorded[launch]) continue;
      if (builder.item_of(recording.index.issued_by(p.node).front()) == kNoItem) continue;
      KeepAsRecorded(launch, builder.rank().end(p.node) - p.duration, program.lanes.front().begin,
                     builder);
    }
  }
}

void AddWaits(const RankInput& input, const RankReconstruction& recording,
              const std::vector<CpuTimelinePoints>& timelines, ProgramBuilder& builder) {
  const RankSync& sync = recording.sync;
  const auto waits_of = [&](const std::vector<SyncEdge>& edges) {
    return WaitsOf(edges, input, builder);
  };
  builder.waits() = waits_of(sync.device_edges);
  const std::vector<WaitOfItem> blocking = waits_of(sync.block_edges);
  builder.waits().insert(builder.waits().end(), blocking.begin(), blocking.end());
  builder.unshown().chosen = waits_of(sync.unshown.chosen);
  builder.unshown().latest = waits_of(sync.unshown.latest);
  for (const OtherEdges& others : sync.unshown.others) {
    builder.unshown().others.push_back({waits_of(others.instead_of), waits_of(others.taken)});
  }
  KeepUnrecordedWaits(builder);
  AddLaunchQueueWaits(timelines, recording, builder);
}

}  // namespace

CompiledRank CompileRecorded(const RankInput& input, const RankReconstruction& recording) {
  ProgramBuilder builder(input);
  const SyncCosts& costs = input.options.sync_costs;
  std::vector<CpuTimelinePoints> timelines = recording.Timelines(costs);
  if (timelines.empty()) {
    const CpuTimeline marks_only;
    timelines.push_back(recording.TimelineOf(marks_only, costs, true));
  }
  builder.report().sync = recording.sync.Summary();
  const RankTrace& rank = input.rank;
  size_t items = 0;
  for (const CpuTimelinePoints& timeline : timelines) items += timeline.points.size();
  for (uint32_t i = 0; i < rank.size(); ++i) items += IsDeviceKind(rank.kind(NodeIndex(i)));
  builder.program().items.reserve(items);
  for (size_t t = 0; t < timelines.size(); ++t) {
    builder.AddTimeline(timelines[t], t == 0, ItemKind::kBlocking);
  }
  AddStreams(input.latencies, recording.priority_streams, builder);
  builder.program().contention = Contends(builder.program());
  AddWaits(input, recording, timelines, builder);
  builder.FindIterations();
  return builder.Finish();
}

}  // namespace foretrace
