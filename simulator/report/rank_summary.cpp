#include "simulator/report/rank_summary.h"

#include <algorithm>

#include "simulator/base/check.h"
#include "simulator/report/overlap.h"

namespace foretrace {

std::vector<RankSummary> ComputeRankSummaries(const EventTable& table,
                                              std::span<const StreamBreakdown> breakdown,
                                              std::span<const IterationWindow> windows,
                                              std::span<const IterationWindow> marks) {
  FORETRACE_CHECK(windows.size() == table.rank_count());
  FORETRACE_CHECK(marks.size() == table.rank_count());
  std::vector<RankSummary> result(table.rank_count());
  for (RankIndex r = 0; r < table.rank_count(); ++r) {
    const RankTrace& rank = table.store().ranks()[r];
    std::vector<Interval> blocked, busy;
    for (const ExecutedNode& event : table.events(r)) {
      const bool device = IsDeviceKind(rank.kind(event.node));
      const IterationWindow& window = device ? windows[r] : marks[r];
      if (event.end <= window.predicted_start || event.start >= window.predicted_end) continue;
      if (!device && event.end_cause == WaitCause::kNone) continue;
      const SimTime start = device ? event.active_start : event.start;
      (device ? busy : blocked)
          .push_back(
              {std::max(start, window.predicted_start), std::min(event.end, window.predicted_end)});
    }
    RankSummary& s = result[r];
    s.rank = r;
    s.marks = marks[r];
    s.window = windows[r];
    s.blocked = Length(Union(std::move(blocked)));
    s.busy = Length(Union(std::move(busy)));
    s.idle = s.window.predicted() - s.busy;
  }
  for (const StreamBreakdown& stream : breakdown) {
    SimTime& busiest = result[stream.rank].busiest_stream;
    busiest = std::max(busiest, stream.busy());
  }
  return result;
}

SimTime Baseline(std::span<const RankSummary> ranks) {
  SimTime baseline;
  for (const RankSummary& rank : ranks) baseline = std::max(baseline, rank.busiest_stream);
  return baseline;
}

}  // namespace foretrace
