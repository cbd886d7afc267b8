#include "simulator/replay/memory/memory_use.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"

namespace foretrace {
namespace {

constexpr size_t Index(MemoryPhase phase) { return static_cast<size_t>(phase); }

// Recorded times.
std::vector<AllocatedMemory> SamplesOf(const MemoryRecording& recording) {
  std::vector<AllocatedMemory> samples;
  int64_t sum = 0, least = 0;
  for (const auto* m : recording.events()) {
    sum += m->bytes;
    least = std::min(least, sum);
    const int64_t now = recording.has_totals() ? m->allocated : sum;
    samples.push_back({recording.TimeOf(*m), Bytes(now), Bytes(m->reserved)});
  }
  if (recording.has_totals()) return samples;
  // What was freed first had been there before: nothing is below zero.
  for (AllocatedMemory& sample : samples) sample.allocated += Bytes(-least);
  return samples;
}

// The event after which most is allocated; the first of equals.
size_t FindPeak(const MemoryRecording& recording, CapturedMemory& out) {
  out.relative = !recording.has_totals();
  const auto events = recording.events();
  size_t peak = 0;
  int64_t most = -1, sum = 0;
  for (size_t i = 0; i < events.size(); ++i) {
    sum += events[i]->bytes;
    const int64_t now = recording.has_totals() ? events[i]->allocated : sum;
    if (now > most) most = now, peak = i;
  }
  out.peak = Bytes(std::max<int64_t>(most, 0));
  out.reserved = Bytes(events[peak]->reserved);
  return peak;
}

// What of the recorded allocations is alive after event `peak`, by what it was allocated in.
void Hold(const MemoryRecording& recording, size_t peak, CapturedMemory& out) {
  std::map<std::pair<std::string, std::string>, MemoryHolder> holders;
  int64_t known = 0;
  const auto at = static_cast<int64_t>(peak);
  for (const MemoryBlock& block : recording.Blocks()) {
    if (block.from < 0 || block.from > at || block.until <= at) continue;
    const auto& m = *recording.events()[static_cast<size_t>(block.from)];
    known += m.bytes;
    out.phases[Index(recording.PhaseOf(m))] += Bytes(m.bytes);
    const std::string module = recording.ModuleOf(m), op = recording.OpOf(m);
    MemoryHolder& holder = holders[{module, op}];
    holder.module = module;
    holder.op = op;
    ++holder.allocations;
    holder.bytes += Bytes(m.bytes);
  }
  if (!out.relative) {
    out.phases[Index(MemoryPhase::kBefore)] +=
        Bytes(std::max<int64_t>(out.peak.count() - known, 0));
  }
  for (auto& [key, holder] : holders) out.holders.push_back(std::move(holder));
  std::stable_sort(out.holders.begin(), out.holders.end(),
                   [](const MemoryHolder& a, const MemoryHolder& b) { return a.bytes > b.bytes; });
}

absl::StatusOr<CapturedMemory> PeakOfRank(const MemoryRecording& recording,
                                          const MemoryChange& change) {
  CapturedMemory out;
  out.rank = recording.rank().info().rank;
  const size_t peak = FindPeak(recording, out);
  out.at = recording.TimeOf(*recording.events()[peak]);
  out.step = recording.rank().iteration_at(out.at);
  out.paired = recording.paired();
  if (out.paired) Hold(recording, peak, out);
  if (out.paired && !out.relative) {
    FORETRACE_ASSIGN_OR_RETURN(const MemoryPeak recorded, PeakOf(recording, MemoryChange()));
    out.ledger = recorded.ledger;
    FORETRACE_ASSIGN_OR_RETURN(const MemoryPeak changed, PeakOf(recording, change));
    if (!change.empty()) out.changed = changed.ledger;
    return out;
  }
  if (change.empty()) return out;
  return Infeasible(
      "--memory-if: rank {} does not record what its frees free, nor how much is allocated in all, "
      "so that it is not known what its peak holds; record with PyTorch 1.13 or later",
      out.rank);
}

// What was read of the rank's profile, where that has memory of the device; else null.
const ProfileExtras* ExtrasOf(const RankTrace& rank, std::span<const ProfileExtras> extras) {
  for (const ProfileExtras& e : extras) {
    if (rank.info().source.find(e.source) == std::string::npos) continue;
    const bool device = std::ranges::any_of(e.memory, [](const auto& m) { return m.on_device; });
    if (device) return &e;
  }
  return nullptr;
}

// From the recorded to the predicted time of a peak, since its step began.
SimTime PredictedSinceStep(const Prediction& prediction, RankIndex r,
                           const CapturedMemory& memory) {
  const SimTime at = prediction.PredictedCpuTime(r, memory.at);
  for (const PredictedIteration& step : prediction.ranks[r].iterations) {
    if (step.number == memory.step) return at - step.predicted_start;
  }
  return at;
}

}  // namespace

std::vector<std::vector<AllocatedMemory>> MemoryOverTime(const TraceStore& store,
                                                         const Prediction& prediction,
                                                         std::span<const ProfileExtras> extras) {
  std::vector<std::vector<AllocatedMemory>> all(store.ranks().size());
  for (RankIndex r = 0; r < all.size(); ++r) {
    const ProfileExtras* of_rank = ExtrasOf(store.ranks()[r], extras);
    if (of_rank == nullptr) continue;
    all[r] = SamplesOf(MemoryRecording(store, store.ranks()[r], *of_rank));
    for (AllocatedMemory& sample : all[r]) sample.at = prediction.PredictedCpuTime(r, sample.at);
  }
  return all;
}

absl::StatusOr<std::vector<CapturedMemory>> MemoryUse(const TraceStore& store,
                                                      const Prediction& prediction,
                                                      std::span<const ProfileExtras> extras,
                                                      const AcceleratorCatalog& accelerators,
                                                      const MemoryChange& change) {
  std::vector<CapturedMemory> all;
  for (RankIndex r = 0; r < store.ranks().size(); ++r) {
    const RankTrace& rank = store.ranks()[r];
    const ProfileExtras* of_rank = ExtrasOf(rank, extras);
    if (of_rank == nullptr) continue;
    FORETRACE_ASSIGN_OR_RETURN(CapturedMemory memory,
                               PeakOfRank(MemoryRecording(store, rank, *of_rank), change));
    memory.at = PredictedSinceStep(prediction, r, memory);
    const Accelerator* device = accelerators.Find(rank.info().device_name);
    if (device != nullptr) memory.capacity = device->visible_memory();
    all.push_back(std::move(memory));
  }
  if (all.empty()) {
    return Infeasible(
        "{}: no device memory is recorded; record with torch.profiler.profile(profile_memory=True)",
        store.ranks().front().info().source);
  }
  return all;
}

}  // namespace foretrace
