#pragma once
// The stages of a mapping as a line of chunks with durations.

#include "simulator/mapping/iteration_model.h"
#include "simulator/plan/line_timing.h"

namespace foretrace {

struct MappedLine {
  LinePipeline line;
  // Of backward passes whose weights' gradient is split off, what that takes; else nothing. Where
  // all are it is no part of line.backward, under DualPipe, where some are, it is.
  std::vector<SimTime> weight;
  bool weight_apart = false;     // all are
  std::vector<char> split_last;  // by chunk, whether it is of the last micro-batch's; else nothing
  // Where passes without an opposite one take longer: by stage how many of them there are each way,
  // and by chunk whether the last micro-batch's backward pass is one; else nothing.
  std::vector<int64_t> lone_passes;
  std::vector<char> lone_last;
  std::vector<SimTime> lone_extra;  // by stage, what all of them take longer

  // All passes of a stage with one micro-batch.
  SimTime OfStage(int32_t stage) const;
};
MappedLine LineOf(const TransformerConfig& model, const ParallelMapping& mapping,
                  const PassTimes& passes);

// When its passes run. Where weights' gradients are split off `last_backward` is of these. Errors:
// as TimePipeline.
absl::StatusOr<LineTiming> TimeOf(const TransformerConfig& model, const ParallelMapping& mapping,
                                  const PassTimes& passes, const MappedLine& line);

// Whether a stage is held until its neighbour has what it sent. DualPipe's messages, which come
// from both sides, run beside kernels with all software.
bool WaitsForMessages(const ParallelMapping& mapping, const PassTimes& passes);

}  // namespace foretrace
