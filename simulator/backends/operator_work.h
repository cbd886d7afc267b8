#pragma once
// What operators of a network compute, and what a kernel that fuses several of them is left with.

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "simulator/backends/operator_dag.h"
#include "simulator/base/estimate.h"
#include "simulator/cost/operator/kernel_work.h"

namespace foretrace {

struct OperatorSizes {
  std::vector<int32_t> input;   // of the first input
  std::vector<int32_t> output;  // empty: not known
};

// The calls of ops[at] by its type, sizes and attributes; `sizes` by operator, producers at least.
// Convolutions over three dimensions are those over two with as many images as there are results
// along the third, and as many channels as filters reach over. Weights of point-wise operators are
// as long as the last dimension. None: the type or a size is not known.
std::vector<OperatorCall> CallsOf(const std::vector<DagOp>& ops,
                                  const std::vector<OperatorSizes>& sizes, size_t at, DType dtype);

// The kernels that run `ops` (ascending). A single operator has its own. Several are one kernel:
// that of the operator with most arithmetic, with the arithmetic of all, which reads what comes
// from outside and writes the last result; what passes between them stays on the chip. Two products
// around a softmax are fused attention. Empty: some operator's work is not known.
std::vector<KernelWork> GroupKernels(const OperatorDag& dag, const std::vector<int32_t>& ops);

// The time of one kernel by itself on a device.
using KernelTimer = std::function<Estimate(const KernelWork&)>;

// Of all kernels of a group one after the other; the weakest source of them.
std::optional<Estimate> EstimateGroup(const OperatorDag& dag, const std::vector<int32_t>& ops,
                                      const KernelTimer& timer);

}  // namespace foretrace
