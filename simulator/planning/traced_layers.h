#pragma once
// A recorded model as layers of cores, for the search of accelerators.

#include "absl/status/statusor.h"
#include "simulator/architect/layer_work.h"
#include "simulator/trace/rank_trace.h"

namespace foretrace {

// The forward calls of the first iteration of the first rank that ran kernels (traced_regions.h),
// in order of issue: products, convolutions and attention on tensor cores, the rest on vector
// cores, the backward pass derived from them as for models. `samples`: of the recorded iteration;
// shapes are those of `micro_batch` of them, to which every operator's batch dimension is scaled
// (also that of what is computed from weights alone, such as casts, which the recording does not
// tell apart). Nothing is divided over devices. Layers end where one
// tensor passes on, or after kMostOps operators. Weights are those of products, convolutions, norms
// and embeddings, each operator's own; activations are results. Where the recording does not say
// who reads what, operators form a line. Errors: no operator with shapes; infeasible:
// a product whose batch dimension has no whole part of that size.
inline constexpr size_t kMostOpsOfLayer = 20;
absl::StatusOr<SlicedModel> LayersOfRecording(const TraceStore& store, int32_t samples,
                                              int32_t micro_batch);

}  // namespace foretrace
