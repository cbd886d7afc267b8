#pragma once
// Reuse factors that a batch is expected to have, from the distribution of its indices.

#include <cstdint>
#include <span>

#include "absl/status/statusor.h"
#include "simulator/cost/embedding/reuse_factors.h"

namespace foretrace {

struct ExpectedAccess {
  double lookups = 0;
  double unique_rows = 0;
  ReuseFactors reuse;  // of the expected numbers of rows; empty without lookups
};

// `lookups` independent draws from `rows` equally likely rows: access counts of a row are Poisson
// with mean lookups / rows (the limit of the binomial for many rows). Both positive, else nothing.
ExpectedAccess UniformAccess(double lookups, double rows);

// Row r, from 0, with probability proportional to 1 / (r + 1)^exponent; rows of nearly equal
// probability are taken together, so that time is logarithmic in `rows`. Errors: rows or lookups
// not positive, an exponent not in (0, 10].
absl::StatusOr<ExpectedAccess> ZipfAccess(double lookups, int64_t rows, double exponent);

// Rows in groups of equal probability. Errors: weights that are negative or add up to nothing.
struct RowGroup {
  double rows = 0;
  double weight = 0;  // of one row, relative to the others
};
absl::StatusOr<ExpectedAccess> GroupedAccess(double lookups, std::span<const RowGroup> groups);

}  // namespace foretrace
