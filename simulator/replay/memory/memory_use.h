#pragma once
// The device memory of captured jobs, from the allocations that profiles record.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/base/units.h"
#include "simulator/engine/replay.h"
#include "simulator/hardware/catalog.h"
#include "simulator/importers/profile_extras.h"
#include "simulator/replay/memory/memory_change.h"
#include "simulator/replay/memory/memory_recording.h"
#include "simulator/report/text_table.h"
#include "simulator/report/timeline_counters.h"
#include "simulator/trace/rank_trace.h"

namespace foretrace {

struct MemoryHolder {
  std::string module;  // innermost, with those around it; empty: none recorded
  std::string op;      // innermost
  int64_t allocations = 0;
  Bytes bytes;
};

struct CapturedMemory {
  int32_t rank = 0;
  Bytes peak;             // allocated
  Bytes reserved;         // from the device, at the peak; 0 not recorded
  Bytes capacity;         // of the device; 0 not known
  int64_t step = -1;      // of the peak; -1: outside of all
  SimTime at;             // predicted, since the beginning of that step or of the recording
  bool relative = false;  // the recording has no totals: the peak is above where it began
  bool paired = false;    // frees name what they free, so that it is known what the peak holds
  Bytes phases[static_cast<size_t>(MemoryPhase::kCount)];
  // Of recordings with totals that are paired.
  std::optional<MemoryLedger> ledger;
  std::optional<MemoryLedger> changed;  // at the peak under --memory-if
  std::vector<MemoryHolder> holders;    // largest first, of what was allocated while recording

  // Reserved and not allocated, of what is reserved.
  double fragmentation() const {
    return reserved.count() > 0
               ? 1 - static_cast<double>(peak.count()) / static_cast<double>(reserved.count())
               : 0;
  }
};

// One entry for each rank with allocations. Errors: none has any, with how to record them; a change
// that cannot be made.
absl::StatusOr<std::vector<CapturedMemory>> MemoryUse(const TraceStore& store,
                                                      const Prediction& prediction,
                                                      std::span<const ProfileExtras> extras,
                                                      const AcceleratorCatalog& accelerators,
                                                      const MemoryChange& change);

// By rank: what the allocator holds from each recorded event on, at its predicted time. Empty where
// none is recorded.
std::vector<std::vector<AllocatedMemory>> MemoryOverTime(const TraceStore& store,
                                                         const Prediction& prediction,
                                                         std::span<const ProfileExtras> extras);

std::string MemoryText(std::span<const CapturedMemory> ranks, size_t most, const TextStyle& style);
std::string MemoryJson(std::span<const CapturedMemory> ranks);  // an array

}  // namespace foretrace
