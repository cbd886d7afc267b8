#include "simulator/sharding/captured_load.h"

#include <algorithm>
#include <utility>

namespace foretrace {
namespace {

using Span = std::pair<SimTime, SimTime>;

// Overlapping spans joined, in order.
std::vector<Span> Joined(std::vector<Span> spans) {
  std::sort(spans.begin(), spans.end());
  std::vector<Span> joined;
  for (const Span& span : spans) {
    if (!joined.empty() && span.first <= joined.back().second) {
      joined.back().second = std::max(joined.back().second, span.second);
    } else if (span.second > span.first) {
      joined.push_back(span);
    }
  }
  return joined;
}

SimTime Length(const std::vector<Span>& joined) {
  SimTime length;
  for (const Span& span : joined) length += span.second - span.first;
  return length;
}

// Of the union of both.
SimTime LengthWith(const std::vector<Span>& a, const std::vector<Span>& b) {
  std::vector<Span> both = a;
  both.insert(both.end(), b.begin(), b.end());
  return Length(Joined(std::move(both)));
}

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
  std::vector<Span> computing, transfer, waiting;
  for (uint32_t i = 0; i < program.items.size(); ++i) {
    const Item& item = program.items[i];
    const Span span{std::max(times.start[i], from), std::min(times.end[i], to)};
    if (span.second <= span.first) continue;
    if (item.kind == ItemKind::kDevice) {
      computing.push_back(span);
      load.busy[static_cast<size_t>(WorkPart::kDense)] += span.second - span.first;
      by_source[static_cast<size_t>(item.source)] += span.second - span.first;
    } else if (item.kind == ItemKind::kComm) {
      const SimTime active =
          std::clamp(schedule.rendezvous_active[item.rendezvous], span.first, span.second);
      waiting.push_back({span.first, active});
      transfer.push_back({active, span.second});
      load.busy[static_cast<size_t>(PartOf(trace.collective_op(item.node)))] +=
          span.second - active;
      by_source[static_cast<size_t>(item.source)] += span.second - active;
    } else {
      const SimTime busy = item.lead + (item.kind == ItemKind::kCall ? item.duration : SimTime());
      load.busy[static_cast<size_t>(WorkPart::kCpu)] += busy;
      by_source[static_cast<size_t>(EstimateSource::kRecorded)] += busy;
    }
  }
  // Every moment counts once: computing, else transferring, else waiting, else idle.
  const std::vector<Span> computed = Joined(std::move(computing));
  const std::vector<Span> moved = Joined(std::move(transfer));
  load.computing = Length(computed);
  const SimTime with_transfer = LengthWith(computed, moved);
  load.exposed_transfer = with_transfer - load.computing;
  std::vector<Span> active = computed;
  active.insert(active.end(), moved.begin(), moved.end());
  load.waiting = LengthWith(Joined(std::move(active)), waiting) - with_transfer;
  load.idle = to - from - load.computing - load.exposed_transfer - load.waiting;
  return load;
}

}  // namespace foretrace
