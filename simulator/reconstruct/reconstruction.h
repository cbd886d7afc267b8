#pragma once
// What the recordings of a job imply, whatever is asked of it: put together here and nowhere else.

#include <memory>
#include <vector>

#include "simulator/hardware/catalog.h"
#include "simulator/reconstruct/communicators.h"
#include "simulator/reconstruct/cpu_timeline.h"
#include "simulator/reconstruct/device_index.h"
#include "simulator/reconstruct/issue_order.h"
#include "simulator/reconstruct/latencies.h"
#include "simulator/reconstruct/sync_rules.h"
#include "simulator/trace/rank_trace.h"

namespace foretrace {

// Of one rank, which has times. The store outlives it.
struct RankReconstruction {
  // `driver`: of the device that the rank was recorded on.
  RankReconstruction(const TraceStore& store, const RankTrace& rank, const DriverLimits& driver);

  // Of each of the issue order's timelines; step marks are on the first.
  std::vector<CpuTimelinePoints> Timelines(const SyncCosts& costs) const;
  CpuTimelinePoints TimelineOf(const CpuTimeline& timeline, const SyncCosts& costs,
                               bool with_marks) const;

  const RankTrace& rank;
  DeviceIndex index;
  IssueOrder order;
  RankSync sync;
  std::vector<bool> priority_streams;  // by lane: FindPriorityStreams
  uint32_t launch_queue_depth = 0;     // MeasureQueueDepth
};

// Of a job.
struct Reconstruction {
  CommunicatorMap communicators;
  std::vector<SimTime> clock_offset;  // by rank
  std::vector<bool> clock_bounded;    // of which only a bound is known (clock_bounds.h)
  std::vector<bool> clock_unknown;    // of which nothing is known
  std::vector<SimTime> clock_noise;   // what they seem to be apart by, not corrected
  std::vector<std::unique_ptr<RankReconstruction>> ranks;  // empty for traces without times
  std::vector<DeviceLinks> links;                          // by rank, of the device that it names
  Latencies latencies;
};

// `communicators`: those of the store. The ranks all have times, or none has. `accelerators` null:
// those of the files that ship. Errors: of CheckClockOffsets and LoadRecordedAccelerators.
absl::StatusOr<Reconstruction> Reconstruct(const TraceStore& store, CommunicatorMap communicators,
                                           const AcceleratorCatalog* accelerators);

}  // namespace foretrace
