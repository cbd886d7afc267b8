#include "simulator/report/overlap.h"

#include <algorithm>

#include "simulator/base/check.h"

namespace foretrace {
namespace {

bool Outside(const ExecutedNode& event, const IterationWindow& window) {
  return event.end <= window.predicted_start || event.start >= window.predicted_end;
}

Interval Within(const IterationWindow& window, SimTime start, SimTime end) {
  return {std::max(start, window.predicted_start), std::min(end, window.predicted_end)};
}

std::vector<Interval> Computation(const EventTable& table, RankIndex r,
                                  const IterationWindow& window) {
  const RankTrace& rank = table.store().ranks()[r];
  std::vector<Interval> computation;
  for (const ExecutedNode& event : table.events(r)) {
    const NodeKind kind = rank.kind(event.node);
    if (Outside(event, window) || !IsDeviceKind(kind) || IsCommunicationKind(kind)) continue;
    computation.push_back(Within(window, event.start, event.end));
  }
  return Union(std::move(computation));
}

}  // namespace

std::vector<OverlapSummary> ComputeOverlap(const EventTable& table,
                                           std::span<const IterationWindow> windows) {
  FORETRACE_CHECK(windows.size() == table.rank_count());
  std::vector<OverlapSummary> result;
  for (RankIndex r = 0; r < table.rank_count(); ++r) {
    const RankTrace& rank = table.store().ranks()[r];
    const IterationWindow& window = windows[r];
    std::vector<Interval> communication, transfer;
    for (const ExecutedNode& event : table.events(r)) {
      if (Outside(event, window) || !IsCommunicationKind(rank.kind(event.node))) continue;
      communication.push_back(Within(window, event.start, event.end));
      transfer.push_back(Within(window, event.active_start, event.end));
    }
    const std::vector<Interval> computation = Computation(table, r, window);
    communication = Union(std::move(communication));
    transfer = Union(std::move(transfer));
    OverlapSummary summary;
    summary.rank = r;
    summary.computation = Length(computation);
    summary.communication = Length(communication);
    summary.transfer = Length(transfer);
    summary.exposed = LengthOutside(communication, computation);
    summary.exposed_transfer = LengthOutside(transfer, computation);
    result.push_back(summary);
  }
  return result;
}

std::vector<ExposedPart> ExposedParts(const EventTable& table, RankIndex r,
                                      const IterationWindow& window) {
  const RankTrace& rank = table.store().ranks()[r];
  const std::vector<Interval> computation = Computation(table, r, window);
  std::vector<ExecutedNode> events;
  for (const ExecutedNode& event : table.events(r)) {
    if (!Outside(event, window) && IsCommunicationKind(rank.kind(event.node))) {
      events.push_back(event);
    }
  }
  std::ranges::stable_sort(events, {}, &ExecutedNode::start);
  std::vector<ExposedPart> parts;
  SimTime reached = window.predicted_start;  // up to here the events before have the moments
  for (const ExecutedNode& event : events) {
    const Interval own = Within(window, std::max(event.start, reached), event.end);
    if (own.end <= own.start) continue;
    reached = own.end;
    const auto first = std::ranges::upper_bound(computation, own.start, {}, &Interval::end);
    parts.push_back({event.node, LengthOutside({&own, 1}, {first, computation.end()})});
  }
  return parts;
}

}  // namespace foretrace
