#pragma once
// Changes of a compiled job: what-if questions, ablations, sweeps. A job is compiled once; each
// question copies its Program (or takes the change back), edits it and executes it.

#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

#include "simulator/engine/compile.h"
#include "simulator/engine/program.h"

namespace foretrace {

// Items of a program by rank, in ascending order.
struct ItemSet {
  std::vector<std::vector<uint32_t>> ranks;

  bool empty() const;
};

// Items for which `chosen` holds. Items that it cannot concern may be left out by kind first.
ItemSet SelectItems(const Program& program,
                    const std::function<bool(uint32_t rank, const Item& item)>& chosen);

// How much longer a transfer takes than as it was, and who says so: a model where the ratio is one
// of its times, which then the result rests on.
struct TimeRatio {
  double value = 1;
  EstimateSource source = EstimateSource::kRecorded;
  bool extrapolated = false;

  // Of what one model says of both.
  static TimeRatio Of(const Estimate& before, const Estimate& after) {
    return {after.time.seconds() / std::max(before.time.seconds(), 1e-12), after.source,
            before.extrapolated || after.extrapolated};
  }
  // That `item` rests on it too.
  void Mark(Item& item) const {
    item.source = std::max(item.source, source);
    item.extrapolated |= extrapolated;
  }
};

// Binds the duration of an item to an estimate. An item of a rendezvous that the network decides
// takes what the network says all the same.
void SetDuration(Program& program, uint32_t rank, uint32_t item, const Estimate& duration);

// Changes how long device work, communication or CPU calls take. A transfer that a network model
// decides serves all its members: where only some of them are chosen, it changes if that makes it
// slower.
void ChangeDurations(Program& program, const ItemSet& items, const DurationChange& change);

// Changes the parts of CPU overheads for which `chosen` holds (CompileOptions::keep_overheads).
// Returns how many there are.
size_t ChangeOverheads(
    Program& program,
    const std::function<bool(uint32_t rank, const Item& item, const OverheadPart& part)>& chosen,
    const DurationChange& change);

// Synchronising calls and blocking copies among `items` hold the CPU no more; a copy is still made.
void StopBlocking(Program& program, const ItemSet& items);

}  // namespace foretrace
