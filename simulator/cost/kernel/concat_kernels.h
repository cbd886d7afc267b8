#pragma once
// PyTorch's concatenations by element (aten/src/ATen/native/cuda/Shape.cu): what a thread of their
// kernels does.

#include <cstdint>
#include <string_view>

#include "simulator/cost/kernel/launched_kernels.h"
#include "simulator/cost/operator/kernel_work.h"
#include "simulator/cost/operator/trace_operator.h"

namespace foretrace {

struct ConcatKernel {
  // Of an element's index, one after the other: for its place in the result and, of tensors that do
  // not lie in one piece (`strided`), in its own.
  int64_t divisions = 0;
  bool strided = false;
};
// "CatArrayBatchedCopy<type, index, dimensions, tensors, strides>" and "..._contig<" alike; two
// dimensions where the name does not say.
ConcatKernel ConcatKernelOf(std::string_view name);

// Of a kernel that takes its tensors element by element: its instructions, and the turns of its
// threads.
void AsConcatByElements(const GpuPeaks& device, const Launch& launch, const ElementAccess& access,
                        KernelWork& work);

// A concatenation that PyTorch leaves to copies into the result, of tensors of five and more
// dimensions, say: one of its launches, which moves so many elements of its.
KernelWork CopyOfConcat(const KernelWork& concat, int64_t elements);

}  // namespace foretrace
