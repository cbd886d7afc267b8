#include "simulator/report/breakdown.h"

#include <algorithm>

#include "simulator/base/check.h"

namespace foretrace {
namespace {

struct LaneState {
  StreamBreakdown breakdown;
  SimTime cursor;  // everything before it is accounted for
};

void Account(const ExecutedNode& event, WorkGroup group, const IterationWindow& window,
             LaneState& lane) {
  // Work that overlaps on one stream (nodes of a CUDA graph) counts once.
  const SimTime start = std::clamp(event.start, lane.cursor, window.predicted_end);
  const SimTime active = std::clamp(event.active_start, start, window.predicted_end);
  const SimTime end = std::clamp(event.end, active, window.predicted_end);
  StreamBreakdown& b = lane.breakdown;
  b.idle[static_cast<size_t>(event.cause)] += start - lane.cursor;
  const bool busy = event.end_cause == WaitCause::kCommunicatorBusy;
  b.idle[static_cast<size_t>(busy ? event.end_cause : WaitCause::kCollectiveArrival)] +=
      active - start;
  b.work[static_cast<size_t>(group)] += end - active;
  lane.cursor = end;
  ++b.nodes;
}

}  // namespace

SimTime StreamBreakdown::busy() const {
  SimTime sum;
  for (SimTime t : work) sum += t;
  return sum;
}

SimTime StreamBreakdown::idle_total() const {
  SimTime sum;
  for (SimTime t : idle) sum += t;
  return sum;
}

std::vector<StreamBreakdown> ComputeBreakdown(const EventTable& table, const Classifier& classifier,
                                              std::span<const IterationWindow> windows) {
  FORETRACE_CHECK(windows.size() == table.rank_count());
  std::vector<StreamBreakdown> result;
  for (RankIndex r = 0; r < table.rank_count(); ++r) {
    const RankTrace& rank = table.store().ranks()[r];
    const IterationWindow& window = windows[r];
    if (window.predicted() <= SimTime()) continue;
    std::vector<LaneState> lanes(rank.lanes().size());
    for (LaneState& lane : lanes) lane.cursor = window.predicted_start;
    for (const ExecutedNode& event : table.events(r)) {
      if (!IsDeviceKind(rank.kind(event.node))) continue;
      if (event.end <= window.predicted_start || event.start >= window.predicted_end) continue;
      Account(event, classifier.Group(r, event.node), window, lanes[event.lane]);
    }
    for (uint32_t l = 0; l < lanes.size(); ++l) {
      StreamBreakdown& b = lanes[l].breakdown;
      if (b.nodes == 0) continue;
      b.rank = r;
      b.lane = LaneIndex(l);
      b.idle[static_cast<size_t>(WaitCause::kNone)] += window.predicted_end - lanes[l].cursor;
      result.push_back(b);
    }
  }
  return result;
}

}  // namespace foretrace
