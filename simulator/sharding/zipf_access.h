#pragma once
// Expected reuse of a table whose rows are looked up with Zipf-distributed popularity.

#include "simulator/cost/embedding/reuse_factors.h"

namespace foretrace {

// Row r, from 1, is looked up with probability proportional to r^-exponent (0: all alike), counts
// being Poisson. Requires rows positive and exponent at least 0.
TableAccess ZipfAccess(int64_t lookups, int64_t rows, double exponent);

}  // namespace foretrace
