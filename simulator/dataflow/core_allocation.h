#pragma once
// Tiles of a chip among the kernels of a partition, by cycles (the early model of DFModel): a GEMM
// on l x s tiles of W lanes and H stages takes ceil(m / (l W)) ceil(n / (s H)) k cycles a tile of
// data, an elementwise kernel ceil(m / (l W)) n.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "simulator/dataflow/system.h"

namespace foretrace::dataflow {

struct TileAllocation {
  int64_t lanes = 1, stages = 1;
  int64_t cycles = 0;
  int64_t tiles() const { return lanes * stages; }
};

// m, k, n of one tile of data. Pareto-optimal in tiles and cycles, fewest tiles first.
std::vector<TileAllocation> AllocationsOf(const Chip& chip, bool gemm, int64_t m, int64_t k,
                                          int64_t n);

// One allocation a kernel, of at most chip.tiles together, with the least largest cycles; nullopt:
// there are fewer tiles than kernels.
std::optional<std::vector<TileAllocation>> Allocate(
    const Chip& chip, std::span<const std::vector<TileAllocation>* const> kernels);

}  // namespace foretrace::dataflow
