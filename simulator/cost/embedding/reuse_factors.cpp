#include "simulator/cost/embedding/reuse_factors.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "absl/container/flat_hash_map.h"
#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"

namespace foretrace {

int ReuseBin(int64_t count) {
  if (count <= 0) return 0;
  return std::min<int>(std::bit_width(static_cast<uint64_t>(count)), kReuseBins - 1);
}

double ReuseBinCount(int bin) {
  if (bin <= 0) return 0;
  if (bin == kReuseBins - 1) return 1.5 * 32768;
  const double low = std::ldexp(1.0, bin - 1);
  return low + (low - 1) / 2;  // middle of low, ..., 2 low - 1
}

absl::StatusOr<TableAccess> AccessOf(std::span<const int64_t> indices, int64_t rows) {
  absl::flat_hash_map<int64_t, int64_t> counts;
  for (size_t i = 0; i < indices.size(); ++i) {
    if (indices[i] < 0 || indices[i] >= rows) {
      return InvalidInput("embedding index {} at position {} is not in [0, {})", indices[i], i,
                          rows);
    }
    ++counts[indices[i]];
  }
  TableAccess access;
  access.lookups = static_cast<int64_t>(indices.size());
  access.unique_rows = static_cast<int64_t>(counts.size());
  std::array<int64_t, kReuseBins> bins = {};
  for (const auto& [row, count] : counts) ++bins[static_cast<size_t>(ReuseBin(count))];
  for (size_t b = 0; b < bins.size() && !counts.empty(); ++b) {
    access.reuse.fractions[b] = static_cast<double>(bins[b]) / static_cast<double>(counts.size());
  }
  return access;
}

double EstimatedUniqueRows(const ReuseFactors& reuse, double lookups, double rows) {
  double mean = 0, total = 0;
  for (int b = 1; b < kReuseBins; ++b) {
    mean += reuse.fractions[static_cast<size_t>(b)] * ReuseBinCount(b);
    total += reuse.fractions[static_cast<size_t>(b)];
  }
  if (total <= 0) return std::min(lookups, rows);
  return std::min({lookups / (mean / total), lookups, rows});
}

ReuseFactors FromRightClosedBins(const std::array<double, kReuseBins>& shares) {
  ReuseFactors reuse;
  double total = 0;
  for (double share : shares) total += share;
  if (total <= 0) return reuse;
  for (int j = 0; j < kReuseBins; ++j) {
    const double share = shares[static_cast<size_t>(j)] / total;
    // Bin 0 is (0, 1], a count of 1 alone, which is the paper's [1, 2). The open last bins agree.
    const double up = j == kReuseBins - 1 ? 0 : std::ldexp(1.0, j == 0 ? 0 : 1 - j);
    const int own = j == 0 ? 0 : j;
    if (own > 0) reuse.fractions[static_cast<size_t>(own)] += share * (1 - up);
    const int next = std::min(own + 1, kReuseBins - 1);
    reuse.fractions[static_cast<size_t>(next)] += share * up;
  }
  return reuse;
}

}  // namespace foretrace
