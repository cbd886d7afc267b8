#include "simulator/dataflow/core_allocation.h"

#include <algorithm>

#include "simulator/dataflow/quantities.h"

namespace foretrace::dataflow {
namespace {

// The fewest of `unit` wide parts for each number of rounds that `size` can take, most rounds
// first.
std::vector<int64_t> UsefulCounts(int64_t size, int64_t unit, int64_t most) {
  std::vector<int64_t> out;
  const int64_t blocks = CeilOf(size, unit);
  for (int64_t count = 1; count <= std::min(blocks, most);) {
    out.push_back(count);
    const int64_t rounds = CeilOf(blocks, count);
    if (rounds == 1) break;
    count = CeilOf(blocks, rounds - 1);
  }
  return out;
}

}  // namespace

std::vector<TileAllocation> AllocationsOf(const Chip& chip, bool gemm, int64_t m, int64_t k,
                                          int64_t n) {
  std::vector<TileAllocation> all;
  const std::vector<int64_t> stage_counts =
      gemm ? UsefulCounts(n, chip.depth, chip.tiles) : std::vector<int64_t>{1};
  for (const int64_t stages : stage_counts) {
    const int64_t columns = gemm ? CeilOf(n, stages * chip.depth) * k : n;
    for (const int64_t lanes : UsefulCounts(m, chip.width, chip.tiles / stages)) {
      all.push_back({lanes, stages, CeilOf(m, lanes * chip.width) * columns});
    }
  }
  std::sort(all.begin(), all.end(), [](const TileAllocation& a, const TileAllocation& b) {
    return a.tiles() != b.tiles() ? a.tiles() < b.tiles() : a.cycles < b.cycles;
  });
  std::vector<TileAllocation> front;
  for (const TileAllocation& a : all) {
    if (front.empty() || a.cycles < front.back().cycles) front.push_back(a);
  }
  return front;
}

std::optional<std::vector<TileAllocation>> Allocate(
    const Chip& chip, std::span<const std::vector<TileAllocation>* const> kernels) {
  // The fewest tiles with which a kernel takes at most `cycles`; null: it cannot.
  const auto cheapest = [](const std::vector<TileAllocation>& front, int64_t cycles) {
    const auto it = std::partition_point(
        front.begin(), front.end(), [&](const TileAllocation& a) { return a.cycles > cycles; });
    return it == front.end() ? nullptr : &*it;
  };
  const auto fits = [&](int64_t cycles) {
    int64_t tiles = 0;
    for (const auto* front : kernels) {
      const TileAllocation* a = cheapest(*front, cycles);
      if (a == nullptr || (tiles += a->tiles()) > chip.tiles) return false;
    }
    return true;
  };
  std::vector<int64_t> candidates;
  for (const auto* front : kernels) {
    for (const TileAllocation& a : *front) candidates.push_back(a.cycles);
  }
  std::sort(candidates.begin(), candidates.end());
  const auto best = std::partition_point(candidates.begin(), candidates.end(),
                                         [&](int64_t cycles) { return !fits(cycles); });
  if (best == candidates.end()) return std::nullopt;
  std::vector<TileAllocation> out;
  for (const auto* front : kernels) out.push_back(*cheapest(*front, *best));
  return out;
}

}  // namespace foretrace::dataflow
