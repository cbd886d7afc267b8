#pragma once
// When the passes of a pipeline run, given how long each takes: the fast evaluator of schedules.
// Exact: the result equals that of replaying one kernel per pass and one message per edge.

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/base/time.h"
#include "simulator/base/units.h"
#include "simulator/plan/schedule.h"

namespace foretrace {

// Of a pass's duration, in which its devices only communicate.
struct PassExchangeTime {
  SimTime time;
  Bytes bytes;        // of all
  int32_t count = 0;  // of equal parts
};

// One stage (with interleaving: one device group; its chunks are positions in the pipeline).
struct TimedStage {
  int32_t micro_batch = 1;  // samples
  PassList passes;
  // Durations by chunk; index 0 where there is only one.
  std::vector<SimTime> forward;
  std::vector<SimTime> backward;         // whole, or its input gradient where that is split off
  std::vector<SimTime> backward_weight;  // only for split backward passes
  std::vector<SimTime> lone_forward, lone_backward;  // of LonePasses; empty: as long as others
  // Of backward passes that leave their weights' gradient, where others do not; empty: `backward`.
  std::vector<SimTime> backward_input;
  // Of stages of stage graphs, what tensor parallelism sums within each pass.
  PassExchangeTime forward_exchange, backward_exchange;
};

// From a (stage, chunk) to another; carries activations forward and gradients backward.
struct TimedEdge {
  int32_t from = 0, from_chunk = 0;
  int32_t to = 0, to_chunk = 0;
  SimTime forward_transfer;  // between the end of the sender's and the start of the receiver's pass
  SimTime backward_transfer;
};

struct TimedPipeline {
  std::vector<TimedStage> stages;
  std::vector<TimedEdge> edges;
  int32_t mini_batch = 1;  // samples; a multiple of every micro-batch size
};

struct PipelineTiming {
  SimTime end;
  std::vector<SimTime> stage_busy;
  std::vector<SimTime> stage_first_start;
  std::vector<SimTime> stage_end;
  std::vector<std::vector<SimTime>> pass_start, pass_end;  // by stage, in its order
};

// Runs every stage's passes in order, each as early as conditions C4 and C5 of GraphPipe allow, and
// paired ones (Pass::paired) together, for as long as both take;
// micro-batches of neighbouring stages may differ in size by a whole factor.
// Errors: sizes that do not divide; passes that wait for each other, named by stage and pass.
absl::StatusOr<PipelineTiming> TimePipeline(const TimedPipeline& pipeline);

}  // namespace foretrace
