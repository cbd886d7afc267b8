#pragma once
// When a pipeline ends whose stages stand in a line and follow one schedule: by the recurrence of
// that schedule, pass by pass, without lists of passes. What has become periodic is counted.

#include <cstdint>
#include <vector>

#include "simulator/base/time.h"

namespace foretrace {

// Chunk c of stage s is number c * stages + s in the order of the model.
struct LinePipeline {
  int32_t stages = 1, chunks = 1;  // more than one chunk: Megatron-LM's interleaving, two stages
  int32_t microbatches = 1;        // with interleaving a multiple of `stages`
  // Without interleaving, KFKBSchedule: passes of one kind in a row, and by stage how many forward
  // ones come before the first backward one, no stage more than the one before it.
  int32_t k = 1;
  std::vector<int64_t> in_flight;
  std::vector<SimTime> forward, backward;  // by chunk, of one micro-batch
  // The same of LonePasses, with k = 1; empty: as long as others.
  std::vector<SimTime> lone_forward, lone_backward;
  SimTime transfer;  // between neighbours, each way
};

struct LineTiming {
  SimTime end;
  std::vector<SimTime> stage_end;      // by stage
  std::vector<SimTime> last_backward;  // by chunk: when the last micro-batch's backward pass starts
};

// Equal to TimePipeline of the same passes to the picosecond. Each round of the schedule, in which
// every stage goes k micro-batches (or one chunk of one) forward and backward, follows from the
// state that the one before left, by maxima and sums alone: when a state comes back later by some
// time, all after it do, until the stages have no more to go forward.
LineTiming TimeLine(const LinePipeline& pipeline);

}  // namespace foretrace
