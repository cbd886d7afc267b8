#include "simulator/engine/restructure.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "simulator/base/check.h"
#include "simulator/engine/reorder.h"

namespace foretrace {
namespace {

// By CPU item: how many device items it issues, and how many of them are chosen.
struct Issued {
  uint32_t all = 0;
  uint32_t chosen = 0;
};

std::vector<bool> Mask(const RankProgram& rank, const std::vector<uint32_t>& items) {
  std::vector<bool> mask(rank.items.size(), false);
  for (const uint32_t i : items) mask[i] = true;
  return mask;
}

std::vector<Issued> CountIssued(const RankProgram& rank, const std::vector<bool>& chosen) {
  std::vector<Issued> issued(rank.items.size());
  for (uint32_t i = 0; i < rank.items.size(); ++i) {
    const uint32_t issuer = rank.items[i].issuer;
    if (issuer == kNoItem) continue;
    ++issued[issuer].all;
    issued[issuer].chosen += chosen[i];
  }
  return issued;
}

// Takes device items out of one rank.
class Remover {
 public:
  Remover(RankProgram& rank, const std::vector<uint32_t>& items)
      : rank_(rank), removed_(Mask(rank, items)) {}

  // Where each item is afterwards; kNoItem: gone.
  std::vector<uint32_t> Run() {
    Resolve();
    std::vector<WaitOfItem> waits = Redirected();
    const std::vector<Issued> issued = CountIssued(rank_, removed_);
    for (uint32_t i = 0; i < issued.size(); ++i) {
      if (issued[i].all == 0 || issued[i].chosen < issued[i].all) continue;
      rank_.items[i].kind = ItemKind::kCall;
      rank_.items[i].duration = SimTime();
    }
    Compact();
    for (auto& [item, wait] : waits) {
      item = place_[item];
      wait.item = place_[wait.item];
    }
    SetWaitsAndQueue(rank_, std::move(waits));
    return std::move(place_);
  }

 private:
  // What a wait for a removed item stands for: at most one item a lane, since lanes are in order.
  using Stands = std::vector<std::pair<uint32_t, SimTime>>;

  void Add(Stands& stands, uint32_t item, SimTime lag) const {
    for (auto& [other, other_lag] : stands) {
      if (rank_.items[other].lane != rank_.items[item].lane) continue;
      if (item > other) other_lag = SimTime();
      if (item >= other) {
        other_lag = std::max(lag, other_lag);
        other = item;
      }
      return;
    }
    stands.emplace_back(item, lag);
  }

  void Resolve() {
    struct Removed {
      uint32_t item = 0;
      uint32_t before = kNoItem;  // on its lane, still there or not
    };
    std::vector<Removed> all;
    for (const LaneProgram& lane : rank_.lanes) {
      for (uint32_t i = lane.begin; i < lane.end; ++i) {
        if (removed_[i]) all.push_back({i, i > lane.begin ? i - 1 : kNoItem});
      }
    }
    // Work started after what it waited for, and rows of recordings are in order of start.
    std::sort(all.begin(), all.end(), [&](const Removed& a, const Removed& b) {
      return std::pair(rank_.items[a.item].node, a.item) <
             std::pair(rank_.items[b.item].node, b.item);
    });
    for (const Removed& r : all) {
      Stands stands;
      if (r.before != kNoItem) Take(stands, r.before, SimTime());
      for (uint32_t w = rank_.items[r.item].waits_begin; w < rank_.waits_end(r.item); ++w) {
        const ItemWait& wait = rank_.waits[w];
        if (!wait.on_start) Take(stands, wait.item, rank_.lags[wait.lag]);
      }
      stands_[r.item] = std::move(stands);
    }
  }

  void Take(Stands& stands, uint32_t item, SimTime lag) const {
    if (!removed_[item]) {
      Add(stands, item, lag);
      return;
    }
    const auto found = stands_.find(item);
    if (found == stands_.end()) return;
    for (const auto& [producer, more] : found->second) Add(stands, producer, lag + more);
  }

  std::vector<WaitOfItem> Redirected() {
    std::vector<WaitOfItem> waits;
    for (const auto& [item, wait] : WaitsOf(rank_)) {
      if (removed_[item]) continue;
      if (!removed_[wait.item]) {
        waits.emplace_back(item, wait);
      } else if (!wait.on_start) {
        for (const auto& [producer, lag] : stands_[wait.item]) {
          ItemWait instead = wait;
          instead.item = producer;
          instead.lag = rank_.lags.Add(rank_.lags[wait.lag] + lag);
          waits.emplace_back(item, instead);
        }
      }
    }
    // The next on a lane inherits what the removed before it waited for.
    for (const LaneProgram& lane : rank_.lanes) {
      for (uint32_t i = lane.begin + 1; i < lane.end; ++i) {
        if (removed_[i] || !removed_[i - 1]) continue;
        for (const auto& [producer, lag] : stands_[i - 1]) {
          if (rank_.items[producer].lane == rank_.items[i].lane) continue;
          waits.emplace_back(
              i, ItemWait(producer, rank_.lags.Add(lag), false, false, WaitCause::kDependency));
        }
      }
    }
    return waits;
  }

  void Compact() {
    std::vector<std::vector<uint32_t>> lanes(rank_.lanes.size());
    for (uint32_t l = 0; l < lanes.size(); ++l) {
      for (uint32_t i = rank_.lanes[l].begin; i < rank_.lanes[l].end; ++i) {
        if (!removed_[i]) lanes[l].push_back(i);
      }
    }
    place_ = Rearrange(rank_, lanes);
  }

  RankProgram& rank_;
  std::vector<bool> removed_;
  std::vector<uint32_t> place_;
  absl::flat_hash_map<uint32_t, Stands> stands_;
};

bool IsMarkOfStep(const RankProgram& rank, uint32_t i) {
  return std::any_of(rank.iterations.begin(), rank.iterations.end(),
                     [i](const auto& it) { return it.begin_item == i || it.end_item == i; });
}

// Launches of one thread, in order, that become graphs.
class GraphCapture {
 public:
  GraphCapture(RankProgram& rank, uint32_t rank_index, const std::vector<uint32_t>& items,
               const GroupOf& group_of)
      : rank_(rank), chosen_(Mask(rank, items)), issued_(CountIssued(rank, chosen_)) {
    group_.assign(rank.items.size(), 0);
    first_.resize(rank.items.size());
    for (uint32_t i = 0; i < rank.items.size(); ++i) {
      first_[i] = i;
      if (chosen_[i] && rank.items[i].issuer != kNoItem) {
        group_[rank.items[i].issuer] = group_of(rank_index, rank.items[i]);
      }
    }
  }

  size_t Run() {
    std::vector<WaitOfItem> waits = WaitsOf(rank_);
    for (const LaneProgram& lane : rank_.lanes) {
      if (lane.cpu) CaptureLane(lane);
    }
    for (Item& item : rank_.items) {
      if (item.issuer != kNoItem) item.issuer = first_[item.issuer];
    }
    for (OverheadPart& part : rank_.overheads) {
      if (saved_.contains(part.item)) part.time = SimTime();
    }
    SetWaitsAndQueue(rank_, std::move(waits));
    return gone_;
  }

 private:
  void CaptureLane(const LaneProgram& lane) {
    uint32_t graph = kNoItem;  // its launch
    uint32_t last = kNoItem;   // the last launch of it so far
    for (uint32_t i = lane.begin; i < lane.end; ++i) {
      const Item& item = rank_.items[i];
      const bool launches = issued_[i].all > 0;
      const bool captured =
          launches && issued_[i].chosen == issued_[i].all && item.kind == ItemKind::kCall;
      if (captured && graph != kNoItem && group_[i] == group_[graph]) {
        for (uint32_t between = last + 1; between <= i; ++between) Save(between);
        first_[i] = graph;
        last = i;
        ++gone_;
      } else if (captured) {
        graph = last = i;
      } else if (launches || item.kind == ItemKind::kBlocking || IsMarkOfStep(rank_, i)) {
        graph = kNoItem;
      }
    }
  }

  void Save(uint32_t i) {
    rank_.items[i].lead = SimTime();
    rank_.items[i].duration = SimTime();
    saved_.insert({i, true});
  }

  RankProgram& rank_;
  std::vector<bool> chosen_;
  std::vector<Issued> issued_;
  std::vector<uint32_t> group_;  // by launch
  std::vector<uint32_t> first_;  // by launch: that of its graph
  absl::flat_hash_map<uint32_t, bool> saved_;
  size_t gone_ = 0;
};

}  // namespace

void RemoveDeviceWork(Program& program, const ItemSet& items) {
  std::vector<std::vector<uint32_t>> places(program.ranks.size());
  for (uint32_t r = 0; r < program.ranks.size(); ++r) {
    if (items.ranks[r].empty()) continue;
    for (const uint32_t i : items.ranks[r]) {
      const LaneProgram& lane = program.ranks[r].lanes[program.ranks[r].items[i].lane];
      FORETRACE_CHECK(!lane.cpu && !lane.ready_order && !lane.unlimited);
    }
    places[r] = Remover(program.ranks[r], items.ranks[r]).Run();
  }
  FollowItems(program, places);
}

namespace {

// Between the launches of two pieces of device work the CPU waits, or a step ends: they are no
// neighbours that one launch could start.
bool ApartOnTheCpu(const RankProgram& rank, const Item& first, const Item& second) {
  if (first.issuer == kNoItem || second.issuer == kNoItem) return false;
  if (rank.items[first.issuer].lane != rank.items[second.issuer].lane) return false;
  for (uint32_t i = first.issuer + 1; i <= second.issuer; ++i) {
    if (rank.items[i].kind == ItemKind::kBlocking || IsMarkOfStep(rank, i)) return true;
  }
  return false;
}

}  // namespace

size_t FuseDeviceWork(Program& program, const ItemSet& items, const GroupOf& group_of) {
  ItemSet gone;
  gone.ranks.resize(program.ranks.size());
  size_t count = 0;
  for (uint32_t r = 0; r < program.ranks.size(); ++r) {
    std::vector<Item>& all = program.ranks[r].items;
    uint32_t fused = kNoItem, last = kNoItem;
    for (const uint32_t i : items.ranks[r]) {
      if (all[i].kind != ItemKind::kDevice) continue;
      const bool joins = last != kNoItem && i == last + 1 && all[i].lane == all[fused].lane &&
                         group_of(r, all[i]) == group_of(r, all[fused]) &&
                         !ApartOnTheCpu(program.ranks[r], all[last], all[i]);
      last = i;
      if (!joins) {
        fused = i;
        continue;
      }
      all[fused].duration += all[i].duration;
      gone.ranks[r].push_back(i);
      ++count;
    }
  }
  RemoveDeviceWork(program, gone);
  return count;
}

size_t CaptureGraphs(Program& program, const ItemSet& items, const GroupOf& group_of) {
  size_t gone = 0;
  for (uint32_t r = 0; r < program.ranks.size(); ++r) {
    gone += GraphCapture(program.ranks[r], r, items.ranks[r], group_of).Run();
  }
  return gone;
}

}  // namespace foretrace
