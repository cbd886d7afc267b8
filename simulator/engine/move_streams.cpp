#include "simulator/engine/move_streams.h"

#include <algorithm>
#include <utility>

#include "simulator/base/check.h"
#include "simulator/engine/reorder.h"

namespace foretrace {
namespace {

class Mover {
 public:
  Mover(RankProgram& rank, const std::vector<uint32_t>& items, LaneIndex stream)
      : rank_(rank), moved_(rank.items.size(), false) {
    const uint32_t from = rank.items[items.front()].lane;
    for (target_ = 0; target_ < rank.lanes.size(); ++target_) {
      const LaneProgram& lane = rank.lanes[target_];
      if (!lane.cpu && stream.valid() && lane.lane == stream) break;
    }
    if (target_ == rank.lanes.size()) {
      LaneProgram added;
      added.lane = stream.valid() ? stream : rank.lanes[from].lane;
      added.begin = added.end = static_cast<uint32_t>(rank.items.size());
      rank.lanes.push_back(added);
    }
    for (const uint32_t i : items) {
      if (rank.items[i].lane == target_) continue;
      moved_[i] = true;
      ++count_;
    }
  }

  size_t count() const { return count_; }

  // Where each item is afterwards.
  std::vector<uint32_t> Run() {
    std::vector<WaitOfItem> waits = WaitsOf(rank_);
    Fork(waits);
    Join(waits);
    std::vector<uint32_t> place = Rearrange(rank_, Lanes());
    for (auto& [item, wait] : waits) {
      item = place[item];
      wait.item = place[wait.item];
    }
    SetWaitsAndQueue(rank_, std::move(waits));
    return place;
  }

 private:
  const LaneProgram& LaneOf(uint32_t item) const { return rank_.lanes[rank_.items[item].lane]; }

  // What moved waits for what stays before it, as long after it as the gap that there was.
  void Fork(std::vector<WaitOfItem>& waits) {
    for (uint32_t i = 0; i < moved_.size(); ++i) {
      if (!moved_[i] || i == LaneOf(i).begin || moved_[i - 1]) continue;
      waits.emplace_back(i, ItemWait(i - 1, rank_.lags.Add(rank_.items[i].lead), false, false,
                                     WaitCause::kDependency));
    }
  }

  // Whoever elsewhere waits for work that stays also waits for what moved and came before it.
  void Join(std::vector<WaitOfItem>& waits) {
    std::vector<uint32_t> last(moved_.size(), kNoItem);  // that moved, up to here on the lane
    for (const LaneProgram& lane : rank_.lanes) {
      uint32_t moved = kNoItem;
      for (uint32_t i = lane.begin; i < lane.end; ++i) {
        if (moved_[i]) moved = i;
        last[i] = moved;
      }
    }
    const size_t recorded = waits.size();
    for (size_t w = 0; w < recorded; ++w) {
      const auto [item, wait] = waits[w];
      if (wait.on_start || moved_[item] || moved_[wait.item]) continue;
      if (last[wait.item] == kNoItem || rank_.items[item].lane == rank_.items[wait.item].lane) {
        continue;
      }
      ItemWait also = wait;
      also.item = last[wait.item];
      waits.emplace_back(item, also);
    }
  }

  // Rows of recordings are in order of start, in which nothing waits for what comes later.
  std::vector<std::vector<uint32_t>> Lanes() const {
    std::vector<std::vector<uint32_t>> lanes(rank_.lanes.size());
    std::vector<uint32_t> arriving;
    for (uint32_t l = 0; l < lanes.size(); ++l) {
      for (uint32_t i = rank_.lanes[l].begin; i < rank_.lanes[l].end; ++i) {
        (moved_[i] ? arriving : lanes[l]).push_back(i);
      }
    }
    const auto earlier = [&](uint32_t a, uint32_t b) {
      return std::pair(rank_.items[a].node, a) < std::pair(rank_.items[b].node, b);
    };
    std::sort(arriving.begin(), arriving.end(), earlier);
    std::vector<uint32_t> merged;
    std::merge(lanes[target_].begin(), lanes[target_].end(), arriving.begin(), arriving.end(),
               std::back_inserter(merged), earlier);
    lanes[target_] = std::move(merged);
    return lanes;
  }

  RankProgram& rank_;
  std::vector<bool> moved_;
  uint32_t target_ = 0;
  size_t count_ = 0;
};

}  // namespace

size_t MoveToStream(Program& program, const ItemSet& items, const std::vector<LaneIndex>& streams) {
  FORETRACE_CHECK(streams.size() == program.ranks.size());
  std::vector<std::vector<uint32_t>> places(program.ranks.size());
  size_t count = 0;
  for (uint32_t r = 0; r < program.ranks.size(); ++r) {
    if (items.ranks[r].empty()) continue;
    for (const uint32_t i : items.ranks[r]) {
      const LaneProgram& lane = program.ranks[r].lanes[program.ranks[r].items[i].lane];
      FORETRACE_CHECK(!lane.cpu && !lane.ready_order && !lane.unlimited);
    }
    Mover mover(program.ranks[r], items.ranks[r], streams[r]);
    count += mover.count();
    places[r] = mover.Run();
  }
  FollowItems(program, places);
  return count;
}

}  // namespace foretrace
