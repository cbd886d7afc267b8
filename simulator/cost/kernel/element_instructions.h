#pragma once
// Instructions of kernels that move tensors element by element.

#include "simulator/cost/kernel/kernel_names.h"
#include "simulator/cost/operator/trace_operator.h"

namespace foretrace {

// Integer instructions of all threads of a kernel of that role; 0: it moves vectors. PyTorch's
// kernels, which find each element by dividing its index by the sizes of the tensor.
double ElementInstructions(KernelRole role, const ElementAccess& access);
}  // namespace foretrace
