#include "simulator/engine/program.h"

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
  const size_t depth = program.launch_queue_depth;
  if (depth == 0) return;
  // Device items in order of their issuers.
  std::vector<uint32_t> begin(program.items.size() + 1, 0);
  for (const Item& item : program.items) {
    if (item.issuer != kNoItem) ++begin[item.issuer + 1];
  }
  for (size_t i = 1; i < begin.size(); ++i) begin[i] += begin[i - 1];
  std::vector<uint32_t> issued_by(begin.back());
  std::vector<uint32_t> next(begin.begin(), begin.end() - 1);
  for (uint32_t i = 0; i < program.items.size(); ++i) {
    if (program.items[i].issuer != kNoItem) issued_by[next[program.items[i].issuer]++] = i;
  }
  for (const LaneProgram& lane : program.lanes) {
    if (!lane.cpu) continue;
    std::vector<uint32_t> issued;
    for (uint32_t i = lane.begin; i < lane.end; ++i) {
      if (begin[i] == begin[i + 1]) continue;
      if (issued.size() >= depth) {
        waits.push_back({i,
                         {issued[issued.size() - depth], LagTable::kZero, true, false,
                          WaitCause::kLaunchQueue}});
      }
      issued.insert(issued.end(), issued_by.begin() + begin[i], issued_by.begin() + begin[i + 1]);
    }
  }
}

}  // namespace foretrace
