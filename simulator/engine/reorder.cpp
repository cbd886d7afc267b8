#include "simulator/engine/reorder.h"

#include <utility>

#include "simulator/base/check.h"

namespace foretrace {
namespace {

// Awaits name members by position.
void DropRemovedMembers(RendezvousProgram& rendezvous) {
  std::vector<uint32_t> place(rendezvous.members.size(), kNoItem);
  uint32_t kept = 0;
  for (size_t m = 0; m < place.size(); ++m) {
    if (rendezvous.members[m].item != kNoItem) place[m] = kept++;
  }
  if (kept == place.size()) return;
  std::erase_if(rendezvous.members, [](const auto& m) { return m.item == kNoItem; });
  std::erase_if(rendezvous.awaits, [&](const auto& await) {
    return place[await.member] == kNoItem || place[await.source] == kNoItem;
  });
  for (auto& await : rendezvous.awaits) await = {place[await.member], place[await.source]};
}

}  // namespace

std::vector<WaitOfItem> WaitsOf(const RankProgram& rank) {
  std::vector<WaitOfItem> waits;
  waits.reserve(rank.waits.size());
  for (uint32_t i = 0; i < rank.items.size(); ++i) {
    for (uint32_t w = rank.items[i].waits_begin; w < rank.waits_end(i); ++w) {
      if (rank.waits[w].cause != WaitCause::kLaunchQueue) waits.emplace_back(i, rank.waits[w]);
    }
  }
  return waits;
}

void SetWaitsAndQueue(RankProgram& rank, std::vector<WaitOfItem> waits) {
  AddLaunchQueue(rank, waits);
  SetWaits(rank, std::move(waits));
}

std::vector<uint32_t> Rearrange(RankProgram& rank,
                                const std::vector<std::vector<uint32_t>>& lanes) {
  FORETRACE_CHECK(lanes.size() == rank.lanes.size());
  std::vector<uint32_t> place(rank.items.size(), kNoItem);
  std::vector<Item> kept;
  kept.reserve(rank.items.size());
  for (uint32_t l = 0; l < lanes.size(); ++l) {
    rank.lanes[l].begin = static_cast<uint32_t>(kept.size());
    for (const uint32_t i : lanes[l]) {
      place[i] = static_cast<uint32_t>(kept.size());
      kept.push_back(rank.items[i]);
      kept.back().lane = l;
    }
    rank.lanes[l].end = static_cast<uint32_t>(kept.size());
  }
  for (Item& item : kept) {
    if (item.issuer != kNoItem) item.issuer = place[item.issuer];
  }
  for (OverheadPart& part : rank.overheads) part.item = place[part.item];
  for (IterationItems& it : rank.iterations) {
    if (it.begin_item != kNoItem) it.begin_item = place[it.begin_item];
    if (it.end_item != kNoItem) it.end_item = place[it.end_item];
  }
  rank.items = std::move(kept);
  return place;
}

void FollowItems(Program& program, const std::vector<std::vector<uint32_t>>& places) {
  for (RendezvousProgram& rendezvous : program.rendezvous) {
    for (auto& m : rendezvous.members) {
      if (!places[m.rank].empty()) m.item = places[m.rank][m.item];
    }
    DropRemovedMembers(rendezvous);
  }
}

}  // namespace foretrace
