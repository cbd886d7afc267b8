#include "simulator/engine/wait_readings.h"

#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"

namespace foretrace {
namespace {

std::vector<WaitOfItem> AllWaits(const RankProgram& rank) {
  std::vector<WaitOfItem> waits;
  waits.reserve(rank.waits.size());
  for (uint32_t i = 0; i < rank.items.size(); ++i) {
    for (uint32_t w = rank.items[i].waits_begin; w < rank.waits_end(i); ++w) {
      waits.emplace_back(i, rank.waits[w]);
    }
  }
  return waits;
}

}  // namespace

void ReadUnshownWaits(const CompiledJob& job, WaitReading reading, Program& program) {
  for (size_t r = 0; r < program.ranks.size(); ++r) {
    const UnshownItemWaits& unshown = job.unshown[r];
    std::vector<WaitOfItem> waits = AllWaits(program.ranks[r]);
    if (reading == WaitReading::kLatest) {
      waits.insert(waits.end(), unshown.latest.begin(), unshown.latest.end());
    } else {
      absl::flat_hash_set<std::pair<uint32_t, uint32_t>> chosen;
      for (const auto& [item, wait] : unshown.chosen) chosen.emplace(item, wait.item);
      std::erase_if(waits, [&](const WaitOfItem& w) {
        return !w.second.on_start && chosen.contains({w.first, w.second.item});
      });
    }
    SetWaits(program.ranks[r], std::move(waits));
  }
}

}  // namespace foretrace
