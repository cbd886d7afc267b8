#pragma once
// GEMMs whose weights are stored in fewer bits than the model's precision has.

#include "simulator/serve/device_costs.h"

namespace foretrace::serve {

// Of the kernels of one call of a GEMM in the model's precision. Where the device multiplies
// such weights, its other operand is brought to 8 bits by a kernel of its own; else weights are
// read as they are stored and unpacked on the way. What is not measured in the format takes the
// longer of reading so many bytes and of computing as much as a GEMM of many rows does for
// each row.
Estimate WeightedGemm(const DeviceCosts& costs, const KernelWork& work, WeightFormat format);

// Energy above idle of a kernel that takes `time`, its weights read as they are stored.
double WeightedJoules(const DeviceCosts& costs, const KernelWork& work, WeightFormat format,
                      SimTime time);

}  // namespace foretrace::serve
