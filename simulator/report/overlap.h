#pragma once
// How much of a rank's communication is hidden behind its computation.

#include <span>
#include <vector>

#include "simulator/base/intervals.h"
#include "simulator/report/event_table.h"

namespace foretrace {

// All times are lengths of unions of intervals over the rank's streams, within the window:
// concurrent work of one kind counts once. Computation is kernels, copies and fills.
struct OverlapSummary {
  RankIndex rank = 0;
  SimTime computation;
  SimTime communication;  // communication occupies a stream: waiting for members and transferring
  SimTime transfer;       // part of it after the arrival of the last member
  SimTime exposed;        // communication while nothing is computed
  SimTime exposed_transfer;  // transfer while nothing is computed; the rest of it is waiting

  // Share of communication that computation hides; 1 when there is no communication.
  double overlapped_share() const {
    return communication > SimTime() ? 1.0 - Share(exposed, communication) : 1.0;
  }
};

// One entry per rank; `windows` holds one window per rank.
std::vector<OverlapSummary> ComputeOverlap(const EventTable& table,
                                           std::span<const IterationWindow> windows);

// Exposed time by communication node: each moment that the rank communicates and computes nothing,
// to the node that began first of those under way. The sum is OverlapSummary::exposed.
struct ExposedPart {
  NodeIndex node;
  SimTime time;
};
std::vector<ExposedPart> ExposedParts(const EventTable& table, RankIndex rank,
                                      const IterationWindow& window);

}  // namespace foretrace
