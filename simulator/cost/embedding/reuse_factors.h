#pragma once
// How often rows of an embedding table are used in one batch, as the multi-GPU paper describes it
// (section IV-C): 17 bins over access counts with bounds at powers of two.

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"

namespace foretrace {

inline constexpr int kReuseBins = 17;

// fractions[0] is for rows accessed [0, 1) times, fractions[i] for [2^(i-1), 2^i) times, the last
// for 2^15 times and more. Normalised over the distinct rows that the batch accesses, as in the
// paper's Figure 6 and in the statistics of the public DLRM datasets, so that fractions[0] is 0 and
// the others add up to 1. An empty batch has all zeros.
struct ReuseFactors {
  std::array<double, kReuseBins> fractions = {};
};

// What a batch does to one table: its lookups (indices, repeated ones included), how many distinct
// rows they touch, and the reuse factors.
struct TableAccess {
  int64_t lookups = 0;
  int64_t unique_rows = 0;
  ReuseFactors reuse;
};

// From the indices of one table and batch. Errors: an index that is negative or not below `rows`.
absl::StatusOr<TableAccess> AccessOf(std::span<const int64_t> indices, int64_t rows);

// From shares of accessed rows in bins closed on the right: (0, 1], (1, 2], (2, 4], ..., (16384,
// 32768], above. Counts are taken as uniform within such a bin, so that of (2^(j-1), 2^j] one count
// in 2^(j-1), the upper bound, moves up a bin.
ReuseFactors FromRightClosedBins(const std::array<double, kReuseBins>& shares);

// Bin of an access count of at least 0.
int ReuseBin(int64_t count);
// Mean access count taken for a bin: the middle of its integers, 1.5 * 2^15 for the last.
double ReuseBinCount(int bin);
// Distinct rows behind `lookups` accesses with these reuse factors: lookups over the mean count of
// an accessed row, at most `rows`.
double EstimatedUniqueRows(const ReuseFactors& reuse, double lookups, double rows);

}  // namespace foretrace
