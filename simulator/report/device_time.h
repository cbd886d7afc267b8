#pragma once
// What each rank's device does between its first and its last work, as profilers' tools count it:
// a communication kernel works from its start on, also while it waits for other ranks.

#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "simulator/report/event_table.h"

namespace foretrace {

// Kinds of work; what runs at once is a set of them.
enum DeviceWorkKind : uint8_t { kComputing = 1, kCommunicating = 2, kMoving = 4 };
// kMoving: copies and fills that are no kernels.

struct DeviceTime {
  RankIndex rank = 0;
  SimTime span;                       // from the first work to the end of the last
  std::array<SimTime, 8> by_kinds{};  // by the set that runs; of the empty one within the span

  // Of a stream, between the end of one work and the start of the next.
  struct Gaps {
    LaneIndex lane;
    SimTime host;    // its launch began after that end
    SimTime kernel;  // launched before it, and less than 30 us
    SimTime other;
  };
  std::vector<Gaps> gaps;
};

// One entry per rank, of what overlaps its window.
std::vector<DeviceTime> ComputeDeviceTime(const EventTable& table,
                                          std::span<const IterationWindow> windows);

}  // namespace foretrace
