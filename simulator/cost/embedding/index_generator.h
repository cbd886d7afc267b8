#pragma once
// Synthetic embedding indices. The same seed gives the same indices on every machine.

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/base/split_mix.h"
#include "simulator/cost/embedding/reuse_factors.h"

namespace foretrace {

// SplitMix64 as a sequence.
class IndexRandom {
 public:
  explicit IndexRandom(uint64_t seed) : state_(seed) {}
  uint64_t Next();
  // Uniform in [0, 1).
  double Uniform() { return UnitInterval(Next()); }
  // Uniform in [0, n); n positive.
  int64_t Below(int64_t n);

 private:
  uint64_t state_;
};

// `count` indices into a table of `rows` rows, rows equally likely. Errors: rows not positive,
// count negative or above 2^30.
absl::StatusOr<std::vector<int64_t>> UniformIndices(int64_t count, int64_t rows, uint64_t seed);

// Row r, from 0, with probability proportional to 1 / (r + 1)^exponent (rejection sampling of
// Hoermann and Derflinger, 1996). Errors as above, and an exponent not in (0, 10].
absl::StatusOr<std::vector<int64_t>> ZipfIndices(int64_t count, int64_t rows, double exponent,
                                                 uint64_t seed);

// Indices whose reuse factors come out as `reuse`: draws an access count for one distinct row after
// the other (its bin by the fractions, uniformly within it) until `count` accesses are given out,
// then shuffles them. Distinct rows are spread evenly over the table. Errors as above, fractions
// that are negative or add up to nothing, or more distinct rows than the table has.
absl::StatusOr<std::vector<int64_t>> LocalityIndices(int64_t count, int64_t rows,
                                                     const ReuseFactors& reuse, uint64_t seed);

}  // namespace foretrace
