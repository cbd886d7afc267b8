#pragma once
// A model given as operators on shapes (of a workload file, or read off a recording) as layers of
// cores.

#include <cstddef>

#include "absl/status/statusor.h"
#include "simulator/architect/layer_work.h"
#include "simulator/workload/workload.h"

namespace foretrace {

// Operators by their calls: GEMMs, convolutions and attention on tensor cores, the rest on
// vector cores, the backward pass derived from them as for transformers. Shapes are those of
// `micro_batch` samples, to which every operator's batch dimension is scaled (also that of what is
// computed from weights alone, such as casts, which recordings do not tell apart). `width` devices
// divide what can be divided (Operator::tensor_ways), with all-reduces where a division begins
// (backward) and ends (forward). Layers end where one tensor passes on, or after kMostOpsOfLayer
// operators (fewer, of more GEMMs than schedules are searched for); a layer's activations are
// what the workload says is kept. Errors: an operator without calls; infeasible: a GEMM whose
// batch dimension has no whole part of that size; a width that divides no GEMM.
inline constexpr size_t kMostOpsOfLayer = 20;
absl::StatusOr<SlicedModel> SliceWorkload(const Workload& workload, int32_t width,
                                          int32_t micro_batch);

}  // namespace foretrace
