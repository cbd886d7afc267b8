#pragma once
// Reuse factors that a batch is expected to have, from the distribution of its indices.

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

}  // namespace foretrace
