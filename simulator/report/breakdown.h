#pragma once
// Where the time of each device stream goes within one iteration: the multi-GPU paper's Figure 2,
// with idle time split by what the stream waited for.

#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "simulator/report/classify.h"
#include "simulator/report/event_table.h"

namespace foretrace {

struct StreamBreakdown {
  RankIndex rank = 0;
  LaneIndex lane;
  uint64_t nodes = 0;
  // Work, by WorkGroup. Communication counts from the arrival of its last member.
  std::array<SimTime, static_cast<size_t>(WorkGroup::kCount)> work{};
  // No work, by what bound the start of the next node; kCollectiveArrival includes the time in
  // which a communication kernel occupies the stream but other members are missing; kNone: no
  // further work in the iteration.
  std::array<SimTime, static_cast<size_t>(WaitCause::kCount)> idle{};

  SimTime busy() const;  // sum of work
  SimTime idle_total() const;
};

// One entry per stream that executes anything within its rank's window, by rank and lane.
// `windows` holds one window per rank. work + idle of an entry sum to the window exactly.
std::vector<StreamBreakdown> ComputeBreakdown(const EventTable& table, const Classifier& classifier,
                                              std::span<const IterationWindow> windows);

}  // namespace foretrace
