#include "simulator/sharding/captured_load.h"

#include <algorithm>
#include <utility>

#include "simulator/base/intervals.h"

namespace foretrace {
namespace {

WorkPart PartOf(CollectiveOp op) {
  switch (op) {
    case CollectiveOp::kAllToAll:
      return WorkPart::kAllToAll;
    case CollectiveOp::kAllReduce:
      return WorkPart::kAllReduce;
    default:
      return WorkPart::kRowCollectives;
  }
}

}  // namespace

RankLoad CapturedLoad(const TemplateJob& job, const Schedule& schedule, uint32_t rank,
                      std::array<SimTime, static_cast<size_t>(EstimateSource::kCount)>& by_source) {
  const RankProgram& program = job.program().ranks[rank];
  const RankSchedule& times = schedule.ranks[rank];
  const RankTrace& trace = job.store().ranks()[rank];
  const auto [from, to] = job.Window(schedule, rank);
  RankLoad load;
  std::vector<Interval> computing, transfer, waiting;
  for (uint32_t i = 0; i < program.items.size(); ++i) {
    const Item& item = program.items[i];
    const Interval span{std::max(times.start[i], from), std::min(times.end[i], to)};
    if (span.end <= span.start) continue;
    if (item.kind == ItemKind::kDevice) {
      computing.push_back(span);
      load.busy[static_cast<size_t>(WorkPart::kDense)] += span.end - span.start;
      by_source[static_cast<size_t>(item.source)] += span.end - span.start;
    } else if (item.kind == ItemKind::kComm) {
      const SimTime active =
          std::clamp(schedule.rendezvous_active[item.rendezvous], span.start, span.end);
      waiting.push_back({span.start, active});
      transfer.push_back({active, span.end});
      load.busy[static_cast<size_t>(PartOf(trace.collective_op(item.node)))] += span.end - active;
      by_source[static_cast<size_t>(item.source)] += span.end - active;
    } else {
      const SimTime busy = item.lead + (item.kind == ItemKind::kCall ? item.duration : SimTime());
      load.busy[static_cast<size_t>(WorkPart::kCpu)] += busy;
      by_source[static_cast<size_t>(EstimateSource::kRecorded)] += busy;
    }
  }
  // Every moment counts once: computing, else transferring, else waiting, else idle.
  const std::vector<Interval> computed = Union(std::move(computing));
  const std::vector<Interval> moved = Union(std::move(transfer));
  load.computing = Length(computed);
  load.exposed_transfer = LengthOutside(moved, computed);
  std::vector<Interval> active = computed;
  active.insert(active.end(), moved.begin(), moved.end());
  load.waiting = LengthOutside(Union(std::move(waiting)), Union(std::move(active)));
  load.idle = to - from - load.computing - load.exposed_transfer - load.waiting;
  return load;
}

}  // namespace foretrace
