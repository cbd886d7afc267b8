#pragma once
// Instructions of kernels that move tensors element by element.

#include "simulator/cost/kernel/kernel_names.h"
#include "simulator/cost/operator/trace_operator.h"

namespace foretrace {

// Integer instructions of all threads of a kernel of that role (element_work.h); 0: it moves
// vectors.
double ElementInstructions(KernelRole role, const ElementAccess& access);
// Whether a kernel packs tensors of bfloat16 in chunks as float.
bool ConvertsChunks(std::string_view name);
// Of a pool over an image of so many elements; 0: its loads and stores are all that counts.
double PoolInstructions(std::string_view name, double elements);

}  // namespace foretrace
