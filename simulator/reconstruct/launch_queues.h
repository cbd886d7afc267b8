#pragma once
// The queues of launches that wait for the device. A stream has two, one of multiprocessors and one
// of copy engines.

#include <cstdint>
#include <vector>

#include "simulator/trace/rank_trace.h"

namespace foretrace {

// When the work of each queue starts, in order, and how much of it comes before a piece of it.
class LaunchQueues {
 public:
  explicit LaunchQueues(const RankTrace& rank);

  size_t size() const { return starts_.size(); }
  size_t QueueOf(NodeIndex device) const;
  const std::vector<SimTime>& StartsAround(NodeIndex device) const {
    return starts_[QueueOf(device)];
  }
  // Work of its queue that had started by a moment.
  size_t Started(NodeIndex device, SimTime at) const;
  // Launches of its queue that had been made, and whose work had not started, at a moment before
  // it.
  size_t Outstanding(NodeIndex device, SimTime at) const;
  size_t PlaceOf(NodeIndex device) const { return place_[device.value]; }

 private:
  const RankTrace& rank_;
  std::vector<std::vector<SimTime>> starts_;  // by queue
  std::vector<size_t> place_;                 // by node
};

// A long launch is a wait for room where nearly as many launches are outstanding as the queue
// holds: some of those in flight when the recording began are not in it. 0: no limit.
size_t NearlyFull(uint32_t depth);

// How many launches of work a queue of the rank holds: `stated`, less the places that something
// else took in it, as the recording shows by at least five launches that were held and that a
// single start can have released. Events that take times have a place, and no profile tells them
// from those that do not.
uint32_t MeasureQueueDepth(const RankTrace& rank, uint32_t stated);

}  // namespace foretrace
