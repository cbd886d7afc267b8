#include "simulator/engine/program_builder.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace foretrace {

ProgramBuilder::ProgramBuilder(const RankInput& input)
    : input_(input), recorded_begin_(RecordedBegin(input.rank)) {
  out_.item_of.assign(input.rank.size(), kNoItem);
  out_.report.latencies = input.latencies;
}

CompiledRank ProgramBuilder::Finish() {
  SetWaits(out_.program, std::move(waits_));
  return std::move(out_);
}

void ProgramBuilder::BeginLane(LaneProgram lane) {
  lane.begin = static_cast<uint32_t>(out_.program.items.size());
  out_.program.lanes.push_back(lane);
}

void ProgramBuilder::EndLane() {
  out_.program.lanes.back().end = static_cast<uint32_t>(out_.program.items.size());
}

uint32_t ProgramBuilder::Add(Item item) {
  RankProgram& program = out_.program;
  const auto index = static_cast<uint32_t>(program.items.size());
  item.lane = static_cast<uint32_t>(program.lanes.size()) - 1;
  out_.item_of[item.node.value] = index;
  program.items.push_back(item);
  return index;
}

bool ProgramBuilder::ModelsOverheads(const CpuPoint& point) const {
  const CompileOptions& options = input_.options;
  if (options.overheads == nullptr) return false;
  return options.overheads_apply == nullptr ||
         options.overheads_apply(rank().info().rank, rank().iteration_at(point.recorded_start));
}

SimTime ProgramBuilder::Lead(const CpuTimelinePoints& timeline, const CpuPoint& point) {
  const CompileOptions& options = input_.options;
  const bool modelled = ModelsOverheads(point);
  if (!modelled && !options.keep_overheads) return point.lead;
  const auto index = static_cast<uint32_t>(out_.program.items.size());
  SimTime lead;
  for (const OverheadSegment& s : timeline.segments_of(point)) {
    const SimTime time =
        modelled ? options.overheads->Mean(s.kind, input_.store.strings().Get(s.op)) : s.time;
    lead += time;
    if (options.keep_overheads) out_.program.overheads.push_back({index, s.op, s.kind, time});
  }
  return lead;
}

Item ProgramBuilder::CpuItem(const CpuPoint& point, ItemKind of_blocking) const {
  Item item;
  item.node = point.node;
  item.kind = point.blocking ? of_blocking : ItemKind::kCall;
  if (point.blocking) {
    item.duration = input_.options.sync_costs.call;
  } else if (!point.is_mark) {
    item.duration = ModelsOverheads(point)
                        ? input_.options.overheads->Mean(OverheadKind::kT4,
                                                         input_.store.name(rank(), point.node))
                        : point.duration;
  }
  return item;
}

void ProgramBuilder::AddTimeline(const CpuTimelinePoints& timeline, bool main,
                                 ItemKind of_blocking) {
  RankProgram& program = out_.program;
  LaneProgram lane;
  lane.cpu = true;
  if (!timeline.points.empty()) lane.lane = rank().lane(timeline.points.front().node);
  BeginLane(lane);
  for (const CpuPoint& point : timeline.points) {
    const auto index = static_cast<uint32_t>(program.items.size());
    Item item = CpuItem(point, of_blocking);
    item.lane = static_cast<uint32_t>(program.lanes.size()) - 1;
    // The lane begins with the rank; its first call comes as late as recorded.
    item.lead = index == program.lanes.back().begin ? point.recorded_start - recorded_begin_
                                                    : Lead(timeline, point);
    if (!point.is_mark) out_.item_of[point.node.value] = index;
    program.items.push_back(item);
    if (main) {
      const SimTime end = point.is_mark ? point.recorded_start : rank().end(point.node);
      out_.anchors.push_back({point.recorded_start, end, index});
    }
  }
  EndLane();
  out_.report.unexplained_blocks += timeline.unexplained_blocks;
  out_.report.unexplained_time += timeline.unexplained_time;
  out_.report.queue_full_launches += timeline.queue_full_launches;
}

void ProgramBuilder::SetDuration(Item& item) {
  std::optional<Estimate> estimate;
  if (input_.options.durations != nullptr) {
    estimate = input_.options.durations->Predict(input_.store, rank(), item.node);
  } else if (rank().has_duration(item.node)) {
    estimate = Estimate{rank().duration(item.node), EstimateSource::kRecorded, false};
  }
  if (estimate.has_value()) {
    item.duration = estimate->time;
    item.source = estimate->source;
    item.extrapolated = estimate->extrapolated;
  } else {
    item.source = EstimateSource::kMissing;
    out_.missing.push_back(item.node);
  }
}

Item ProgramBuilder::DeviceWork(NodeIndex node) {
  Item item;
  item.node = node;
  item.kind = ItemKind::kDevice;
  const NodeIndex call = rank().launcher(node);
  if (call.valid()) item.issuer = item_of(call);
  if (IsCommunicationKind(rank().kind(node))) {
    item.duration = rank().duration(node);
  } else {
    SetDuration(item);
  }
  return item;
}

SimTime ProgramBuilder::RecordedGap(NodeIndex node, SimTime previous_recorded_end) {
  ++out_.report.unlaunched_device_nodes;
  const SimTime start = rank().start(node);
  if (start < recorded_begin_ + SimTime::FromNs(100'000)) out_.report.in_flight_at_start = true;
  return std::max(SimTime(), start - std::max(previous_recorded_end, recorded_begin_));
}

void ProgramBuilder::FindIterations() {
  RankProgram& program = out_.program;
  // By node: the iteration that it marks, and one more; 0 for none.
  std::vector<uint32_t> marks;
  for (const IterationMark& mark : rank().iterations()) {
    marks.resize(rank().size(), 0);
    IterationItems it;
    it.number = mark.number;
    it.recorded_begin = rank().start(mark.node);
    it.recorded_end = rank().end(mark.node);
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
