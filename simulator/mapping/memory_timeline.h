#pragma once
// Device memory of a transformer's stages over time, as the schedule fills and frees it.

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/base/time.h"
#include "simulator/mapping/iteration_model.h"
#include "simulator/mapping/memory_model.h"

namespace foretrace {

struct MemorySample {
  SimTime time;
  Bytes bytes;  // in use from then on
};

struct StageMemory {
  std::vector<MemorySample> samples;  // ascending; the first is before the first pass
  // The first moment at which most is in use, what runs then, and what takes it.
  SimTime peak_time;
  Pass peak_pass;
  int64_t passes_held = 0;  // forward passes (of a chunk each) whose backward pass has not ended
  MemoryLedger peak;
};

// One a stage. A pass takes the memory of its activations when it starts; its backward pass frees
// it when it ends, after the weights' gradient where that is split off. At most MemoryOf at any
// time.
absl::StatusOr<std::vector<StageMemory>> MemoryOverTime(const TransformerConfig& model,
                                                        const ParallelMapping& mapping,
                                                        const PassTimes& passes);

}  // namespace foretrace
