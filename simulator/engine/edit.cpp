#include "simulator/engine/edit.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "simulator/base/check.h"

namespace foretrace {
namespace {

bool Slower(const DurationChange& a, const DurationChange& b) {
  return std::pair(a.factor, a.added) > std::pair(b.factor, b.added);
}

}  // namespace

bool ItemSet::empty() const {
  return std::all_of(ranks.begin(), ranks.end(), [](const auto& items) { return items.empty(); });
}

ItemSet SelectItems(const Program& program,
                    const std::function<bool(uint32_t rank, const Item& item)>& chosen) {
  ItemSet set;
  set.ranks.resize(program.ranks.size());
  for (uint32_t r = 0; r < program.ranks.size(); ++r) {
    const std::vector<Item>& items = program.ranks[r].items;
    for (uint32_t i = 0; i < items.size(); ++i) {
      if (chosen(r, items[i])) set.ranks[r].push_back(i);
    }
  }
  return set;
}

void SetDuration(Program& program, uint32_t rank, uint32_t item, const Estimate& duration) {
  Item& set = program.ranks[rank].items[item];
  set.duration = duration.time;
  set.source = duration.source;
  set.extrapolated = duration.extrapolated;
}

void ChangeDurations(Program& program, const ItemSet& items, const DurationChange& change) {
  FORETRACE_CHECK(items.ranks.size() == program.ranks.size());
  absl::flat_hash_map<uint32_t, size_t> modelled;  // rendezvous -> members chosen
  for (uint32_t r = 0; r < items.ranks.size(); ++r) {
    for (const uint32_t i : items.ranks[r]) {
      Item& item = program.ranks[r].items[i];
      const bool decided_by_network =
          item.kind == ItemKind::kComm && !program.rendezvous[item.rendezvous].fixed;
      if (decided_by_network) {
        ++modelled[item.rendezvous];
      } else {
        item.duration = change.Of(item.duration);
      }
    }
  }
  for (const auto& [index, chosen] : modelled) {
    RendezvousProgram& rendezvous = program.rendezvous[index];
    const DurationChange changed = rendezvous.change.Then(change);
    if (chosen == rendezvous.members.size() || Slower(changed, rendezvous.change)) {
      rendezvous.change = changed;
    }
  }
}

size_t ChangeOverheads(
    Program& program,
    const std::function<bool(uint32_t rank, const Item& item, const OverheadPart& part)>& chosen,
    const DurationChange& change) {
  size_t count = 0;
  for (uint32_t r = 0; r < program.ranks.size(); ++r) {
    RankProgram& rank = program.ranks[r];
    for (OverheadPart& part : rank.overheads) {
      Item& item = rank.items[part.item];
      if (!chosen(r, item, part)) continue;
      ++count;
      const SimTime changed = change.Of(part.time);
      item.lead += changed - part.time;
      part.time = changed;
    }
  }
  return count;
}

void StopBlocking(Program& program, const ItemSet& items) {
  for (uint32_t r = 0; r < items.ranks.size(); ++r) {
    RankProgram& rank = program.ranks[r];
    for (const uint32_t i : items.ranks[r]) {
      if (rank.items[i].kind == ItemKind::kBlocking) rank.items[i].kind = ItemKind::kCall;
    }
  }
}

}  // namespace foretrace
