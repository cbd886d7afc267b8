#include "simulator/engine/wait_readings.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "simulator/reconstruct/clock_noise.h"

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

bool IsUnshownLaunch(const TraceStore& store, const CompiledJob& job, size_t rank,
                     const Item& item) {
  if (item.kind != ItemKind::kDevice || item.issuer == kNoItem) return false;
  const LaunchClass how = LaunchClassOf(store.ranks()[rank], item.node);
  return job.reports[rank].latencies.launch_samples[static_cast<size_t>(how)] == 0;
}

// `copied`: an item of a stream, whose item before it is the one before in the program.
bool IsUnshownCopy(const RankTrace& trace, const RankProgram& rank, uint32_t copied) {
  const Item& copy = rank.items[copied];
  if (copy.kind != ItemKind::kDevice || copy.issuer == kNoItem) return false;
  if (trace.kind(copy.node) != NodeKind::kMemcpy || !trace.has_duration(copy.node)) return false;
  const MemcpyKind kind = trace.memcpy_kind(copy.node);
  if (kind != MemcpyKind::kHostToDevicePinned && kind != MemcpyKind::kDeviceToHostPinned)
    return false;
  const Item& call = rank.items[copy.issuer];
  if (call.kind != ItemKind::kCall || !trace.has_duration(call.node)) return false;
  const SimTime after = trace.end(call.node) - trace.end(copy.node);
  if (after > kClockNoise || -after > kClockNoise) return false;
  const SimTime soon = trace.start(call.node) + kClockNoise;
  const bool queued =
      copied > rank.lanes[copy.lane].begin && trace.end(rank.items[copied - 1].node) > soon;
  return queued || trace.duration(copy.node) > kClockNoise;
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

int64_t UnshownLaunches(const TraceStore& store, const CompiledJob& job) {
  int64_t count = 0;
  for (size_t r = 0; r < job.program.ranks.size(); ++r) {
    count += std::ranges::count_if(job.program.ranks[r].items, [&](const Item& item) {
      return IsUnshownLaunch(store, job, r, item);
    });
  }
  return count;
}

void ScaleUnshownLaunches(const TraceStore& store, const CompiledJob& job, double factor,
                          Program& program) {
  for (size_t r = 0; r < program.ranks.size(); ++r) {
    for (Item& item : program.ranks[r].items) {
      if (IsUnshownLaunch(store, job, r, item)) item.issue_lag = item.issue_lag.ScaledBy(factor);
    }
  }
}

int64_t UnshownCopies(const TraceStore& store, const Program& program) {
  int64_t count = 0;
  for (size_t r = 0; r < program.ranks.size(); ++r) {
    const RankProgram& rank = program.ranks[r];
    for (uint32_t i = 0; i < rank.items.size(); ++i) {
      count += IsUnshownCopy(store.ranks()[r], rank, i) ? 1 : 0;
    }
  }
  return count;
}

void ReadCopiesAsBlocking(const TraceStore& store, Program& program) {
  for (size_t r = 0; r < program.ranks.size(); ++r) {
    const RankTrace& trace = store.ranks()[r];
    RankProgram& rank = program.ranks[r];
    std::vector<WaitOfItem> waits = AllWaits(rank);
    for (uint32_t i = 0; i < rank.items.size(); ++i) {
      if (!IsUnshownCopy(trace, rank, i)) continue;
      const Item& copy = rank.items[i];
      Item& call = rank.items[copy.issuer];
      const SimTime after = trace.end(call.node) - trace.end(copy.node);
      call.kind = ItemKind::kBlocking;
      call.duration = std::min(call.duration, copy.issue_lag);
      const uint32_t lag = rank.lags.Add(std::max(after, SimTime()));
      waits.push_back({copy.issuer, {i, lag, false, true, WaitCause::kCpuBlock}});
    }
    SetWaits(rank, std::move(waits));
  }
}

}  // namespace foretrace
