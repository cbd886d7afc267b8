#include "simulator/engine/wait_readings.h"

#include <algorithm>
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

void Drop(const std::vector<WaitOfItem>& dropped, std::vector<WaitOfItem>& waits) {
  absl::flat_hash_set<std::pair<uint32_t, uint32_t>> pairs;
  for (const auto& [item, wait] : dropped) pairs.emplace(item, wait.item);
  std::erase_if(waits, [&](const WaitOfItem& w) {
    return !w.second.on_start && pairs.contains({w.first, w.second.item});
  });
}

}  // namespace

size_t OtherReadings(const CompiledJob& job) {
  size_t most = 0;
  for (const UnshownItemWaits& unshown : job.unshown) {
    most = std::max(most, unshown.others.size());
  }
  return most;
}

void ReadOtherwise(const CompiledJob& job, size_t number, Program& program) {
  for (size_t r = 0; r < program.ranks.size(); ++r) {
    if (number >= job.unshown[r].others.size()) continue;
    const OtherItemWaits& others = job.unshown[r].others[number];
    std::vector<WaitOfItem> waits = AllWaits(program.ranks[r]);
    Drop(others.instead_of, waits);
    waits.insert(waits.end(), others.taken.begin(), others.taken.end());
    SetWaits(program.ranks[r], std::move(waits));
  }
}

void ReadUnshownWaits(const CompiledJob& job, WaitReading reading, Program& program) {
  for (size_t r = 0; r < program.ranks.size(); ++r) {
    const UnshownItemWaits& unshown = job.unshown[r];
    std::vector<WaitOfItem> waits = AllWaits(program.ranks[r]);
    if (reading == WaitReading::kLatest) {
      waits.insert(waits.end(), unshown.latest.begin(), unshown.latest.end());
    } else {
      Drop(unshown.chosen, waits);
    }
    SetWaits(program.ranks[r], std::move(waits));
  }
}

void ReadAsBuffered(const CompiledJob& job, Program& program) {
  for (const AssumedAwaits& assumed : job.assumed) {
    RendezvousProgram& rendezvous = program.rendezvous[assumed.rendezvous];
    const auto members = static_cast<uint32_t>(rendezvous.members.size());
    if (rendezvous.awaiting == Awaiting::kAll) {
      for (uint32_t source = 0; source < members; ++source) {
        for (uint32_t member = 0; member < members; ++member) {
          if (member != source) rendezvous.awaits.push_back({member, source});
        }
      }
    }
    std::erase_if(rendezvous.awaits, [&](const RendezvousProgram::Await& await) {
      return std::ranges::any_of(assumed.awaits, [&](const RendezvousProgram::Await& dropped) {
        return await.member == dropped.member && await.source == dropped.source;
      });
    });
    rendezvous.awaiting = rendezvous.awaits.empty() ? Awaiting::kNone : Awaiting::kListed;
    // Who did not wait took all of its time itself.
    for (size_t m = 0; m < assumed.parts.size(); ++m) {
      const RendezvousProgram::Member& member = rendezvous.members[m];
      program.ranks[member.rank].items[member.item].duration = assumed.parts[m];
    }
  }
}

}  // namespace foretrace
