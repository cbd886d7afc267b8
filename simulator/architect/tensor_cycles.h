#pragma once
// Cycles of GEMMs on tensor cores: a tile model with buffer and bandwidth limits.

#include <cstdint>

#include "simulator/architect/design_space.h"

namespace foretrace {

// c[batch, m, n] = a[batch, m, k] b[batch, k, n].
struct Gemm {
  int64_t batch = 1, m = 0, n = 0, k = 0;
  bool operator==(const Gemm&) const = default;
};

// The GEMM is divided over `cores` (at most the design's) along batch, rows, columns and depth;
// each core keeps a tile of its results in its L2 buffer and streams the operands through, as often
// as there are tiles. The largest counts of: cycles of the array (two of the three dimensions lie
// on it), words from the global buffer into L2 buffers, words back (partial sums, where the depth
// is divided, among both), and transfers from and to HBM, where the global buffer keeps a tile of
// the results in the same way. Of all divisions the fastest. Plus filling the array once.
int64_t TensorCycles(const Gemm& gemm, const AcceleratorDesign& design, const MachineBase& machine,
                     int32_t cores);

}  // namespace foretrace
