#pragma once
// Instructions of kernels that move tensors element by element.

#include "simulator/cost/kernel/kernel_names.h"
#include "simulator/cost/operator/trace_operator.h"

namespace foretrace {

// Integer instructions of all threads of a kernel of that role (element_work.h); 0: it moves
// vectors.
double ElementInstructions(KernelRole role, const ElementAccess& access);
}  // namespace foretrace
