#include "simulator/cost/embedding/expected_reuse.h"

#include <gtest/gtest.h>

#include <cmath>

#include "simulator/cost/embedding/index_generator.h"

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

TEST(ExpectedReuse, ZipfAgreesWithItsGenerator) {
  for (const double exponent : {0.6, 1.0, 1.3}) {
    const int64_t rows = 20000, lookups = 200000;
    const auto indices = ZipfIndices(lookups, rows, exponent, 7);
    ASSERT_TRUE(indices.ok());
    const auto drawn = AccessOf(*indices, rows);
    ASSERT_TRUE(drawn.ok());
    const auto expected = ZipfAccess(static_cast<double>(lookups), rows, exponent);
    ASSERT_TRUE(expected.ok()) << expected.status();
    // A binomial count of about 10,000 rows has a standard deviation below 100.
    EXPECT_NEAR(expected->unique_rows, static_cast<double>(drawn->unique_rows),
                0.02 * expected->unique_rows)
        << exponent;
    for (size_t b = 0; b < kReuseBins; ++b) {
      EXPECT_NEAR(expected->reuse.fractions[b], drawn->reuse.fractions[b], 0.02) << b;
    }
  }
}

TEST(ExpectedReuse, GroupsAddUp) {
  // 10 hot rows take 9 of 10 lookups: 90 each; 1000 cold ones 0.1 each.
  const RowGroup groups[] = {{10, 900}, {1000, 1}};
  const auto access = GroupedAccess(1000, groups);
  ASSERT_TRUE(access.ok()) << access.status();
  EXPECT_NEAR(access->unique_rows, 10 + 1000 * (1 - std::exp(-0.1)), 1e-6);
  double sum = 0;
  for (double f : access->reuse.fractions) sum += f;
  EXPECT_NEAR(sum, 1, 1e-9);
}

TEST(ExpectedReuse, BadInput) {
  EXPECT_FALSE(ZipfAccess(10, 0, 1).ok());
  EXPECT_FALSE(ZipfAccess(10, 10, 0).ok());
  EXPECT_FALSE(ZipfAccess(0, 10, 1).ok());
  const RowGroup bad[] = {{-1, 1}};
  EXPECT_FALSE(GroupedAccess(10, bad).ok());
}

}  // namespace
}  // namespace foretrace
