#include "simulator/reconstruct/reconstruction.h"

#include <utility>

#include "simulator/base/status_macros.h"
#include "simulator/reconstruct/clock_bounds.h"
#include "simulator/reconstruct/launch_queues.h"
#include "simulator/reconstruct/recorded_accelerators.h"
#include "simulator/reconstruct/stream_priorities.h"

namespace foretrace {

RankReconstruction::RankReconstruction(const TraceStore& store, const RankTrace& of,
                                       const DriverLimits& driver)
    : rank(of),
      index(of, store, driver),
      order(FindIssueOrder(of, index)),
      sync(InferSync(of, index, order)),
      priority_streams(FindPriorityStreams(of, sync.device_edges)),
      launch_queue_depth(MeasureQueueDepth(of, driver.launch_queue_depth)) {}

CpuTimelinePoints RankReconstruction::TimelineOf(const CpuTimeline& timeline,
                                                 const SyncCosts& costs, bool with_marks) const {
  return BuildCpuTimeline(rank, timeline, index, sync, costs, with_marks);
}

std::vector<CpuTimelinePoints> RankReconstruction::Timelines(const SyncCosts& costs) const {
  std::vector<CpuTimelinePoints> timelines;
  for (const CpuTimeline& timeline : order.timelines) {
    timelines.push_back(TimelineOf(timeline, costs, timelines.empty()));
  }
  return timelines;
}

absl::StatusOr<Reconstruction> Reconstruct(const TraceStore& store, CommunicatorMap communicators,
                                           const AcceleratorCatalog* accelerators) {
  Reconstruction recording;
  recording.communicators = std::move(communicators);
  ClockEstimate clocks = EstimateClocks(store, recording.communicators);
  recording.clock_offset = std::move(clocks.offsets);
  recording.clock_unknown = std::move(clocks.unknown);
  recording.clock_noise = std::move(clocks.within_noise);
  recording.clock_bounded =
      KeepOrderOfTransfers(store, recording.communicators, recording.clock_offset);
  FORETRACE_RETURN_IF_ERROR(
      CheckClockOffsets(store, recording.communicators, recording.clock_offset));
  AcceleratorCatalog shipped;
  if (accelerators == nullptr) {
    FORETRACE_ASSIGN_OR_RETURN(shipped, LoadRecordedAccelerators(store));
    accelerators = &shipped;
  }
  LatencyMeter meter;
  for (const RankTrace& rank : store.ranks()) {
    recording.links.push_back(accelerators->LinksOf(rank.info().device_name));
    if (!rank.info().has_times) continue;
    recording.ranks.push_back(std::make_unique<RankReconstruction>(
        store, rank, accelerators->DriverOf(rank.info().device_name)));
    meter.Add(rank, recording.ranks.back()->sync);
  }
  recording.latencies =
      meter.Measure(accelerators->DriverOf(store.ranks().front().info().device_name).latencies);
  return recording;
}

}  // namespace foretrace
