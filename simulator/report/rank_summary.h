#pragma once
// One line per rank: how long its iteration takes and what it spends it on.

#include <span>
#include <vector>

#include "simulator/report/breakdown.h"
#include "simulator/report/event_table.h"

namespace foretrace {

struct RankSummary {
  RankIndex rank = 0;
  IterationWindow marks;   // the iteration between its marks on the CPU
  IterationWindow window;  // what its device does for it: PredictionReport::window
  // Time in which the simulation, not the recording, decides how long the CPU is held: the union
  // over the rank's CPU threads of its blocked calls (synchronisation, blocking copies, full launch
  // queue). A prediction replays the rest, so that a small step error at a blocked share near zero
  // says little.
  SimTime blocked;
  // Union over the rank's streams of work in progress (communication from its last arrival).
  SimTime busy;
  // No stream works: window - busy.
  SimTime idle;
  SimTime busiest_stream;  // largest sum of work over one stream

  double blocked_share() const { return Share(blocked, marks.predicted()); }
};

// One entry per rank; `breakdown` as ComputeBreakdown returned it for the same `windows`, which
// `marks` may differ from.
std::vector<RankSummary> ComputeRankSummaries(const EventTable& table,
                                              std::span<const StreamBreakdown> breakdown,
                                              std::span<const IterationWindow> windows,
                                              std::span<const IterationWindow> marks);

// The multi-GPU paper's baseline (Figure 10): the largest sum of device work over one stream of
// one rank, as if nothing but the busiest stream mattered.
SimTime Baseline(std::span<const RankSummary> ranks);

}  // namespace foretrace
