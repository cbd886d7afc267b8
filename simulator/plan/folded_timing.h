#pragma once
// Timing of a pipeline of many equal micro-batches by simulating a few.

#include <cstdint>
#include <functional>

#include "absl/status/statusor.h"
#include "simulator/plan/pipeline_timing.h"

namespace foretrace {

// A schedule in which, after `warmup` forward passes, every stage repeats one order of passes of
// `microbatches` micro-batches over and over, until it drains.
struct SchedulePeriod {
  int32_t microbatches = 1;
  int32_t passes = 2;           // of a stage in one period
  std::vector<int64_t> warmup;  // by stage, in passes
  bool periodic = true;         // false: simulate all
};

struct FoldedTiming {
  PipelineTiming timing;  // of `simulated` micro-batches
  TimedPipeline pipeline;
  int32_t simulated = 0;
  SimTime shift;  // what the micro-batches left out add to every end
  SimTime end() const { return timing.end + shift; }
};

using PipelineOfCount = std::function<absl::StatusOr<TimedPipeline>(int32_t microbatches)>;

// Exact: start times solve x = max over dependencies (x' + duration), whose solution is unique.
// When some consecutive periods differ by the same time in every pass of every stage, and more of
// them than any dependency reaches back, then periods inserted there with the same difference solve
// it too.
absl::StatusOr<FoldedTiming> TimeFolded(const PipelineOfCount& make, const SchedulePeriod& period,
                                        int32_t microbatches);

}  // namespace foretrace
