#pragma once
// GraphPipe's greedy micro-batch schedule (algorithm 4, appendix 3.10.1).

#include <cstdint>

#include "absl/status/statusor.h"
#include "simulator/plan/pipeline_timing.h"

namespace foretrace {

// The schedule of a new stage in front of `successors`, whose schedules stand: a backward pass
// whenever the rest, continued as 1F1B, still ends as early as any schedule of this stage can.
// The new stage feeds the stages in `feeds`. Optimal for the stage given its successors, in time
// and then in micro-batches held, not for the pipeline as a whole.
// In line 5 of the published algorithm the continuation starts with a forward pass; it is tried
// only while some forward pass is still open (c_b < c_f).
absl::StatusOr<PassList> GreedySchedule(const TimedPipeline& successors,
                                        const std::vector<int32_t>& feeds, int32_t micro_batch,
                                        SimTime forward, SimTime backward);

}  // namespace foretrace
