#pragma once
// How much of a minibatch a pipeline stage holds between forward and backward (GraphPipe, section
// 3.6, appendix 3.10.2).

#include <cstdint>

namespace foretrace {

// A stage's micro-batch size in samples and the k of its kFkB schedule; 1F1B is k = 1.
struct StageConfig {
  int32_t micro_batch = 1;
  int32_t k = 1;
  auto operator<=>(const StageConfig&) const = default;
};

// Samples in flight at a stage `x` whose successor `y` holds `in_flight_y` (table 3.2). Sizes and
// k are powers of two; the table is total over them. Micro-batches: divide by x's size, rounded up.
int64_t ComputeInFlight(StageConfig x, StageConfig y, int64_t in_flight_y);

// Of a stage without successor: one group of k micro-batches.
inline int64_t LastStageInFlight(StageConfig c) { return int64_t{c.k} * c.micro_batch; }

}  // namespace foretrace
