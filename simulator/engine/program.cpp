#include "simulator/engine/program.h"

#include <array>
#include <cmath>
#include <utility>

namespace foretrace {
namespace {

// As long as kLongestProgram where it would be longer.
SimTime Scaled(SimTime time, double factor) {
  const double scaled = static_cast<double>(time.ps()) * factor;
  if (std::abs(scaled) < static_cast<double>(kLongestProgram.ps())) return time.ScaledBy(factor);
  return scaled < 0 ? -kLongestProgram : kLongestProgram;
}

}  // namespace

DurationChange DurationChange::Then(const DurationChange& next) const {
  return {factor * next.factor, Scaled(added, next.factor) + next.added};
}

SimTime DurationChange::Of(SimTime time) const {
  return *this == DurationChange{} ? time : Scaled(time, factor) + added;
}

void SetWaits(RankProgram& program, std::vector<WaitOfItem> waits) {
  std::vector<Item>& items = program.items;
  program.waits.assign(waits.size(), ItemWait());
  for (Item& item : items) item.waits_begin = 0;
  // Each begin counts its item's waits, then is where the next one goes, and in the end where the
  // next item's begin.
  for (const auto& [item, wait] : waits) ++items[item].waits_begin;
  uint32_t next = 0;
  for (Item& item : items) next += std::exchange(item.waits_begin, next);
  for (const auto& [item, wait] : waits) program.waits[items[item].waits_begin++] = wait;
  next = 0;
  for (Item& item : items) next = std::exchange(item.waits_begin, next);
}

void AddLaunchQueue(const RankProgram& program, std::vector<WaitOfItem>& waits) {
  const uint32_t depth = program.launch_queue_depth;
  if (depth == 0) return;
  struct Queue {
    std::vector<uint32_t> items;
    uint32_t issuer = kNoItem;  // of the last
  };
  for (const LaneProgram& lane : program.lanes) {
    if (lane.cpu || lane.end - lane.begin <= depth) continue;
    std::array<Queue, 2> queues;  // of multiprocessors, of copy engines
    for (uint32_t i = lane.begin; i < lane.end; ++i) {
      const Item& item = program.items[i];
      Queue& queue = queues[item.copy_engine ? 1 : 0];
      const size_t place = queue.items.size();
      queue.items.push_back(i);
      // One call issues all kernels of a graph: it finds room for the first.
      if (std::exchange(queue.issuer, item.issuer) == item.issuer) continue;
      if (item.issuer == kNoItem || place < depth) continue;
      waits.push_back(
          {item.issuer,
           {queue.items[place - depth], LagTable::kZero, true, false, WaitCause::kLaunchQueue}});
    }
  }
}

}  // namespace foretrace
