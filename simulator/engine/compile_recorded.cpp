#include "simulator/engine/compile_rank.h"

#include <algorithm>
#include <array>
#include <utility>

#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/base/utf8.h"
#include "simulator/engine/lane_lists.h"

namespace foretrace {
SimTime RecordedBegin(const RankTrace& rank) { return rank.start(NodeIndex(0)); }

std::string DescribeNode(const TraceStore& store, const RankTrace& rank, NodeIndex node) {
  return fmt::format("rank {} node {} ({})", rank.info().rank, rank.source_id(node),
                     Excerpt(store.name(rank, node), 60));
}

RankCompiler::RankCompiler(const TraceStore& store, uint32_t rank, const CompileOptions& options,
                           const RankReconstruction* recording, const Latencies& latencies)
    : store_(store), rank_(store.ranks()[rank]), options_(options), recording_(recording) {
  out_.report.latencies = latencies;
}

absl::StatusOr<CompiledRank> RankCompiler::Run() {
  out_.item_of.assign(rank_.size(), kNoItem);
  recorded_begin_ = RecordedBegin(rank_);
  if (rank_.info().has_times && options_.semantics == Semantics::kAlgorithm1) {
    CompileAlgorithm1();
  } else if (rank_.info().has_times) {
    CompileRecorded();
  } else {
    CompileSymbolic();
  }
  SetWaits(out_.program, std::move(waits_));
  return std::move(out_);
}

void RankCompiler::CompileRecorded() {
  std::vector<CpuTimelinePoints> timelines = recording_->Timelines(options_.sync_costs);
  if (timelines.empty()) {
    const CpuTimeline marks_only;
    timelines.push_back(recording_->TimelineOf(marks_only, options_.sync_costs, true));
  }
  out_.report.sync = recording_->sync.Summary();
  size_t items = 0;
  for (const CpuTimelinePoints& timeline : timelines) items += timeline.points.size();
  for (uint32_t i = 0; i < rank_.size(); ++i) items += IsDeviceKind(rank_.kind(NodeIndex(i)));
  out_.program.items.reserve(items);
  for (size_t t = 0; t < timelines.size(); ++t) AddTimeline(timelines[t], t == 0);
  AddStreams();
  FindContention();
  AddWaits(timelines);
  FindIterations();
}

bool RankCompiler::ModelsOverheads(const CpuPoint& point) const {
  if (options_.overheads == nullptr) return false;
  return options_.overheads_apply == nullptr ||
         options_.overheads_apply(rank_.info().rank, rank_.iteration_at(point.recorded_start));
}

SimTime RankCompiler::Lead(const CpuTimelinePoints& timeline, const CpuPoint& point) {
  const bool modelled = ModelsOverheads(point);
  if (!modelled && !options_.keep_overheads) return point.lead;
  const auto index = static_cast<uint32_t>(out_.program.items.size());
  SimTime lead;
  for (const OverheadSegment& s : timeline.segments_of(point)) {
    const SimTime time =
        modelled ? options_.overheads->Mean(s.kind, store_.strings().Get(s.op)) : s.time;
    lead += time;
    if (options_.keep_overheads) out_.program.overheads.push_back({index, s.op, s.kind, time});
  }
  return lead;
}

void RankCompiler::AddCpuItem(const CpuTimelinePoints& timeline, const CpuPoint& point) {
  RankProgram& program = out_.program;
  Item item;
  item.node = point.node;
  item.lane = static_cast<uint32_t>(program.lanes.size()) - 1;
  item.lead = Lead(timeline, point);
  item.kind = point.blocking ? ItemKind::kBlocking : ItemKind::kCall;
  if (point.blocking) {
    item.duration = options_.sync_costs.call;
  } else if (!point.is_mark) {
    item.duration = ModelsOverheads(point) ? options_.overheads->Mean(
                                                 OverheadKind::kT4, store_.name(rank_, point.node))
                                           : point.duration;
  }
  const auto index = static_cast<uint32_t>(program.items.size());
  if (!point.is_mark) out_.item_of[point.node.value] = index;
  program.items.push_back(item);
}

void RankCompiler::AddTimeline(const CpuTimelinePoints& timeline, bool main) {
  RankProgram& program = out_.program;
  LaneProgram lane;
  lane.cpu = true;
  lane.begin = static_cast<uint32_t>(program.items.size());
  program.lanes.push_back(lane);
  for (const CpuPoint& point : timeline.points) {
    const auto index = static_cast<uint32_t>(program.items.size());
    AddCpuItem(timeline, point);
    if (index == lane.begin) {
      // The lane begins with the rank; its first call comes as late as recorded.
      program.items.back().lead = point.recorded_start - recorded_begin_;
      while (!program.overheads.empty() && program.overheads.back().item == index) {
        program.overheads.pop_back();
      }
    }
    if (main) {
      const SimTime end = point.is_mark ? point.recorded_start : rank_.end(point.node);
      out_.anchors.push_back({point.recorded_start, end, index});
    }
  }
  program.lanes.back().end = static_cast<uint32_t>(program.items.size());
  if (!timeline.points.empty()) {
    program.lanes.back().lane = rank_.lane(timeline.points.front().node);
  }
  out_.report.unexplained_blocks += timeline.unexplained_blocks;
  out_.report.unexplained_time += timeline.unexplained_time;
  out_.report.queue_full_launches += timeline.queue_full_launches;
}

SimTime RankCompiler::DeviceDuration(NodeIndex node, Item& item) {
  SimTime duration;
  std::optional<Estimate> estimate;
  if (options_.durations != nullptr) {
    estimate = options_.durations->Predict(store_, rank_, node);
  } else if (rank_.has_duration(node)) {
    estimate = Estimate{rank_.duration(node), EstimateSource::kRecorded, false};
  }
  if (estimate.has_value()) {
    duration = estimate->time;
    item.source = estimate->source;
    item.extrapolated = estimate->extrapolated;
  } else {
    item.source = EstimateSource::kMissing;
    out_.missing.push_back(node);
  }
  return duration;
}

uint32_t RankCompiler::AddDeviceItem(NodeIndex node, uint32_t lane, SimTime previous_recorded_end) {
  RankProgram& program = out_.program;
  const auto index = static_cast<uint32_t>(program.items.size());
  Item item;
  item.node = node;
  item.lane = lane;
  item.kind = ItemKind::kDevice;
  const bool first = index == program.lanes[lane].begin;
  const NodeKind before = first ? NodeKind::kKernel : rank_.kind(program.items[index - 1].node);
  item.lead = out_.report.latencies.gap_after(before);
  const NodeIndex call = rank_.launcher(node);
  if (call.valid() && out_.item_of[call.value] != kNoItem) {
    item.issuer = out_.item_of[call.value];
    item.issue_lag = out_.report.latencies.launch_of(LaunchClassOf(rank_, node));
  } else {
    // In flight when the recording began, or its launch was not recorded: keep its recorded gap.
    ++out_.report.unlaunched_device_nodes;
    if (rank_.start(node) < recorded_begin_ + SimTime::FromNs(100'000)) {
      out_.report.in_flight_at_start = true;
    }
    item.lead =
        std::max(SimTime(), rank_.start(node) - std::max(previous_recorded_end, recorded_begin_));
  }
  if (!IsCommunicationKind(rank_.kind(node))) {
    item.duration = DeviceDuration(node, item);
  } else {
    // Its own part, once it is known whom it meets; as recorded where it meets nobody.
    item.duration = rank_.duration(node);
  }
  SetOccupancy(node, item);
  out_.item_of[node.value] = index;
  program.items.push_back(item);
  return index;
}

// Blocks of a kernel are placed wave by wave; other streams find room when its last wave starts.
void RankCompiler::SetOccupancy(NodeIndex node, Item& item) {
  const NodeKind kind = rank_.kind(node);
  if (kind == NodeKind::kMemcpy) return;
  item.needs_room = true;
  const uint32_t waves = kind == NodeKind::kKernel ? rank_.waves_milli(node) : 0;
  if (waves <= 1000) return;
  const double share = 1.0 - 1000.0 / static_cast<double>(waves);
  item.placement_share = static_cast<uint16_t>(share * 65535.0);
}

void RankCompiler::AddStreams() {
  RankProgram& program = out_.program;
  const LaneLists streams(
      rank_, [this](NodeIndex n) { return IsDeviceKind(rank_.kind(n)) && rank_.has_duration(n); });
  for (uint32_t s = 0; s < rank_.lanes().size(); ++s) {
    if (streams.of(LaneIndex(s)).empty()) continue;
    LaneProgram lane;
    lane.lane = LaneIndex(s);
    lane.begin = static_cast<uint32_t>(program.items.size());
    const auto lane_index = static_cast<uint32_t>(program.lanes.size());
    program.lanes.push_back(lane);
    SimTime previous_end = recorded_begin_;
    for (const NodeIndex node : streams.of(LaneIndex(s))) {
      AddDeviceItem(node, lane_index, previous_end);
      previous_end = std::max(previous_end, rank_.end(node));
    }
    // The first work of a stream has nothing to keep a gap from.
    if (program.items[lane.begin].issuer != kNoItem) program.items[lane.begin].lead = SimTime();
    program.lanes.back().end = static_cast<uint32_t>(program.items.size());
  }
}

// What followed something from before the recording goes on (a blocking call ends, other items
// begin) no earlier than it did, counted from the rank's first item. RepeatStep leaves waits for a
// start out.
void RankCompiler::KeepAsRecorded(uint32_t item, SimTime at) {
  RankProgram& program = out_.program;
  const uint32_t origin = program.lanes.front().begin;
  if (item == kNoItem || item == origin) return;
  const ItemKind kind = program.items[item].kind;
  const SimTime after = at - rank_.start(program.items[origin].node);
  const uint32_t lag = program.lags.Add(std::max(SimTime(), after));
  const WaitCause cause = kind == ItemKind::kBlocking ? WaitCause::kCpuBlock
                          : kind == ItemKind::kCall   ? WaitCause::kLaunchQueue
                                                      : WaitCause::kDependency;
  waits_.push_back({item, {origin, lag, true, kind == ItemKind::kBlocking, cause}});
}

void RankCompiler::KeepUnrecordedWaits() {
  for (const HeldWait& wait : out_.report.sync.after_unrecorded) {
    const bool blocks = rank_.kind(wait.held) == NodeKind::kRuntimeCall;
    KeepAsRecorded(out_.item_of[wait.held.value],
                   blocks ? rank_.end(wait.held) : rank_.start(wait.held));
    out_.report.in_flight_at_start = true;
    out_.report.partial_steps.insert(rank_.iteration_at(rank_.start(wait.call)));
  }
}

// Kernels wait while kernels of other streams still have blocks to place, where the trace knows how
// many waves of blocks each has. That needs at least two streams, and a kernel that fills the
// device.
void RankCompiler::FindContention() {
  RankProgram& program = out_.program;
  size_t streams = 0;
  bool fills = false;
  for (const LaneProgram& lane : program.lanes) {
    if (lane.cpu) continue;
    bool needs_room = false;
    for (uint32_t i = lane.begin; i < lane.end; ++i) {
      needs_room = needs_room || program.items[i].needs_room;
      fills = fills || program.items[i].placement_share > 0;
    }
    if (needs_room) ++streams;
  }
  program.contention = fills && streams > 1;
}

// Device edges and those of blocking calls may be mixed.
std::vector<WaitOfItem> RankCompiler::WaitsOf(const std::vector<SyncEdge>& edges) {
  const Latencies& latencies = out_.report.latencies;
  std::array<uint32_t, kEventClasses> lags;
  for (size_t c = 0; c < kEventClasses; ++c) {
    lags[c] = out_.program.lags.Add(latencies.event_of(static_cast<EventClass>(c)));
  }
  const uint32_t resume = out_.program.lags.Add(options_.sync_costs.resume);
  std::vector<WaitOfItem> waits;
  waits.reserve(edges.size());
  for (const SyncEdge& e : edges) {
    const bool blocks = rank_.kind(e.consumer) == NodeKind::kRuntimeCall;
    const uint32_t consumer = out_.item_of[e.consumer.value];
    const uint32_t producer = out_.item_of[e.producer.value];
    if (consumer == kNoItem || producer == kNoItem) continue;
    if (blocks) {
      waits.push_back({consumer, {producer, resume, false, true, WaitCause::kCpuBlock}});
      continue;
    }
    const EventClass event = EventClassOf(rank_.kind(e.producer), rank_.kind(e.consumer));
    waits.push_back(
        {consumer,
         {producer, lags[static_cast<size_t>(event)], false, false, WaitCause::kDependency}});
  }
  return waits;
}

void RankCompiler::AddWaits(const std::vector<CpuTimelinePoints>& timelines) {
  const RankSync& sync = recording_->sync;
  waits_ = WaitsOf(sync.device_edges);
  const std::vector<WaitOfItem> blocking = WaitsOf(sync.block_edges);
  waits_.insert(waits_.end(), blocking.begin(), blocking.end());
  out_.unshown.chosen = WaitsOf(sync.unshown.chosen);
  out_.unshown.latest = WaitsOf(sync.unshown.latest);
  for (const OtherEdges& others : sync.unshown.others) {
    out_.unshown.others.push_back({WaitsOf(others.instead_of), WaitsOf(others.taken)});
  }
  KeepUnrecordedWaits();
  AddLaunchQueueWaits(timelines);
}

void RankCompiler::AddLaunchQueueWaits(const std::vector<CpuTimelinePoints>& timelines) {
  RankProgram& program = out_.program;
  program.launch_queue_depth = recording_->index.driver().launch_queue_depth;
  AddLaunchQueue(program, waits_);
  // What waited for work of before the recording.
  for (const CpuTimelinePoints& timeline : timelines) {
    for (const CpuPoint& p : timeline.points) {
      if (!p.queue_full) continue;
      const uint32_t work = out_.item_of[recording_->index.issued_by(p.node).front().value];
      if (work == kNoItem) continue;
      if (work - program.lanes[program.items[work].lane].begin < program.launch_queue_depth) {
        KeepAsRecorded(out_.item_of[p.node.value], rank_.end(p.node) - p.duration);
      }
    }
  }
}

void RankCompiler::FindIterations() {
  RankProgram& program = out_.program;
  // By node: the iteration that it marks, and one more; 0 for none.
  std::vector<uint32_t> marks;
  for (const IterationMark& mark : rank_.iterations()) {
    marks.resize(rank_.size(), 0);
    IterationItems it;
    it.number = mark.number;
    it.recorded_begin = rank_.start(mark.node);
    it.recorded_end = rank_.end(mark.node);
    program.iterations.push_back(it);
    marks[mark.node.value] = static_cast<uint32_t>(program.iterations.size());
  }
  if (marks.empty()) return;
  const LaneProgram& lane = program.lanes.front();
  for (uint32_t i = lane.begin; i < lane.end; ++i) {
    const uint32_t mark = marks[program.items[i].node.value];
    if (mark == 0) continue;
    IterationItems& it = program.iterations[mark - 1];
    (it.begin_item == kNoItem ? it.begin_item : it.end_item) = i;
  }
}

}  // namespace foretrace
