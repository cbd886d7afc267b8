#include "simulator/cost/embedding/expected_reuse.h"

#include <gtest/gtest.h>

#include <cmath>

namespace foretrace {
namespace {

// One lookup a row on average: Poisson with mean 1. Accessed rows 1 - 1/e; once 1/e of all; two or
// three times (1/2 + 1/6)/e; four to seven times (1/24 + 1/120 + 1/720 + 1/5040)/e.
TEST(ExpectedReuse, UniformIsPoisson) {
  const ExpectedAccess access = UniformAccess(1000, 1000);
  const double e = std::exp(1.0), accessed = 1 - 1 / e;
  EXPECT_NEAR(access.unique_rows, 1000 * accessed, 1e-9);
  EXPECT_NEAR(access.reuse.fractions[0], 0, 1e-12);
  EXPECT_NEAR(access.reuse.fractions[1], 1 / e / accessed, 1e-12);
  EXPECT_NEAR(access.reuse.fractions[2], (2.0 / 3) / e / accessed, 1e-12);
  EXPECT_NEAR(access.reuse.fractions[3],
              (1.0 / 24 + 1.0 / 120 + 1.0 / 720 + 1.0 / 5040) / e / accessed, 1e-12);
}

// 5,000 accesses of a row on average: nearly all within 4,096 to 8,191, the bin 13.
TEST(ExpectedReuse, LargeMeansAreNormal) {
  const ExpectedAccess access = UniformAccess(5e6, 1000);
  EXPECT_NEAR(access.unique_rows, 1000, 1e-6);
  EXPECT_NEAR(access.reuse.fractions[13], 1, 1e-9);
  EXPECT_EQ(UniformAccess(0, 1000).unique_rows, 0);
}

}  // namespace
}  // namespace foretrace
