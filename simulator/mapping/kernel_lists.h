#pragma once
// Lists of kernels, put together from calls of operators.

#include "simulator/cost/operator/kernel_work.h"

namespace foretrace {

// Adds a call's kernels behind those that are there, each with at least so many integer
// instructions of all threads (cost/operator/element_work.h).
void Append(KernelList& list, const OperatorCall::Shape& shape, DType dtype,
            Direction pass = Direction::kForward, double instructions = 0);

}  // namespace foretrace
