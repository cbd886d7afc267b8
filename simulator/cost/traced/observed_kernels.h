#pragma once
// What the kernels that a recording shows for a call say of it beyond its shapes.

#include <span>
#include <vector>

#include "simulator/cost/kernel/gpu_peaks.h"
#include "simulator/cost/kernel/kernel_names.h"
#include "simulator/cost/operator/kernel_work.h"
#include "simulator/cost/operator/trace_operator.h"
#include "simulator/trace/rank_trace.h"

namespace foretrace {

struct ObservedKernels {
  // The operator, with what shapes do not say: whether a copy is strided, attention masked.
  OperatorCall call;
  KernelList list;               // Kernels(call); a single one with what its name tells of its work
  std::vector<NodeIndex> mains;  // in order of issue; the others are helpers
  Precision precision = Precision::kFloat32;
};
// On `device`.
ObservedKernels Observe(const GpuPeaks& device, const TraceStore& store, const RankTrace& rank,
                        const TracedOperator& traced, std::span<const NodeIndex> kernels);

}  // namespace foretrace
