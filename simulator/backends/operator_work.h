#pragma once
// What operators of a network compute, and what a kernel that fuses several of them is left with.

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "simulator/backends/operator_view.h"
#include "simulator/base/estimate.h"
#include "simulator/cost/operator/kernel_work.h"

namespace foretrace {

// The kernels that run `ops` (ascending). A single operator has its own. Several are one kernel:
// that of the operator with most arithmetic, with the arithmetic of all, which reads what comes
// from outside and writes the last result; what passes between them stays on the chip. Two GEMMs
// around a softmax are fused attention. Empty: some operator's work is not known.
std::vector<KernelWork> GroupKernels(const OperatorView& dag, const std::vector<int32_t>& ops);

// The time of one kernel by itself on a device.
using KernelTimer = std::function<Estimate(const KernelWork&)>;

// Of all kernels of a group one after the other; the weakest source of them.
std::optional<Estimate> EstimateGroup(const OperatorView& dag, const std::vector<int32_t>& ops,
                                      const KernelTimer& timer);

}  // namespace foretrace
