#pragma once
// Kernels that put values where indices say: the indices are sorted, so that those of one place lie
// together, then each place is added to by one warp.

#include <cstdint>
#include <optional>
#include <string_view>

#include "simulator/cost/kernel/gpu_peaks.h"
#include "simulator/cost/kernel/launched_kernels.h"

namespace foretrace {

struct IndexedWrite {
  int64_t indices = 0;  // that are sorted; 0: not known
  int64_t places = 1;   // that an index may name
  int64_t bytes = 0;    // of the values
};

IndexedWrite IndexedWriteOf(const IndexOp& op, DType dtype);

// How much longer the kernel takes than one of a single load; `bandwidth_efficiency`: what
// streaming kernels reach of the DRAM's peak. Which indices are equal is not known: each is taken
// to have a place of its own. nullopt: another kernel, or its size is not known.
std::optional<double> IndexedWriteUs(const GpuPeaks& device, double bandwidth_efficiency,
                                     const Launch& launch, const IndexedWrite& write);

// A kernel of the gradient of a whole table by `indices` lookups (aten/src/ATen/native/cuda/
// {Embedding,EmbeddingBackwardKernel}.cu), beyond one that does nothing. nullopt: another kernel.
std::optional<double> DenseGradientUs(const GpuPeaks& device, double bandwidth_efficiency,
                                      const Launch& launch, int64_t indices);

// A kernel of FBGEMM's that has a warp for each bag of a batch (bounds_check_indices,
// permute_2D_sparse_data), beyond one of a single load. `bytes`: of the call's arguments. nullopt:
// another kernel, or its grid is not known.
std::optional<double> WarpsOfBagsUs(const GpuPeaks& device, double bandwidth_efficiency,
                                    const Launch& launch, int64_t bytes);

}  // namespace foretrace
