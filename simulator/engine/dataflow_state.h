#pragma once
// What the dataflow executor knows of each item while it runs; a detail of dataflow_executor.cpp.

#include <cstdint>
#include <vector>

#include "simulator/base/time.h"
#include "simulator/engine/program.h"

namespace foretrace {

// Lanes whose items exclude each other and run when ready.
inline bool IsExclusive(const LaneProgram& lane) { return lane.ready_order && !lane.unlimited; }
inline bool IsInOrder(const LaneProgram& lane) { return !lane.ready_order && !lane.unlimited; }

// Who waits for an item.
struct Consumer {
  uint32_t item = 0;
  uint32_t lag : LagTable::kBits = LagTable::kZero;  // in DataflowRank::lags
  bool on_start : 1 = false;
  bool before_end : 1 = false;
};
static_assert(sizeof(Consumer) == 8);

// Half a cache line, which holds all that most items need: jobs are far larger than the cache, and
// items of all ranks take turns in order of time.
struct ItemState {
  static constexpr uint32_t kKnown = 0xffffffff;

  // Until it is known, the latest of its constraints so far.
  SimTime start = SimTime::Min();
  // Likewise; where `fixed_length`, until then how long the item takes.
  SimTime end = SimTime::Min();
  // How many constraints are not known yet; kKnown once the start, or end, is.
  uint32_t before_start = 0;
  uint32_t before_end = 0;
  uint32_t consumers_begin = 0;  // in DataflowRank::consumers, up to the next item's
  uint16_t lane = 0;
  bool competes : 1 = false;       // for its lane or for room on the device
  bool meets : 1 = false;          // ends as its rendezvous says
  bool fixed_length : 1 = false;   // nothing but the start decides the end
  bool start_awaited : 1 = false;  // by some consumer
  bool end_awaited : 1 = false;
};
static_assert(sizeof(ItemState) == 32);

// A lane whose items exclude each other and run when ready; of those that wait, the first in
// program order. A rank issues its work in that order, so that an early microbatch is not held up
// by later ones that happened to be ready before it.
struct LaneState {
  bool running = false;  // and the end is not known yet
  SimTime free_at = SimTime::Min();
  std::vector<uint32_t> waiting;  // a min-heap of items, which are numbered in program order
};

struct DataflowRank {
  explicit DataflowRank(const RankProgram& program);

  uint32_t size() const { return static_cast<uint32_t>(items.size()) - 1; }
  // The starts and ends as they are; frees the items.
  RankSchedule TakeSchedule();

  std::vector<ItemState> items;     // and one more, where the consumers end
  std::vector<Consumer> consumers;  // the next of a lane in order is left out
  LagTable lags;
  std::vector<LaneState> lanes;
  // By lane: until when the work that runs there still has blocks to place.
  std::vector<SimTime> placing_until;
};

}  // namespace foretrace
