#include "simulator/sharding/zipf_access.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "simulator/base/split_mix.h"

namespace foretrace {
namespace {

// Rows drawn one by one, by where a number in [0, 1) falls among their cumulated shares.
std::vector<int64_t> DrawRows(int64_t lookups, int64_t rows, double exponent) {
  std::vector<double> below;
  double sum = 0;
  for (int64_t r = 1; r <= rows; ++r) {
    below.push_back(sum += std::pow(static_cast<double>(r), -exponent));
  }
  SplitMixSequence random(7);
  std::vector<int64_t> drawn;
  for (int64_t i = 0; i < lookups; ++i) {
    const auto at = std::ranges::upper_bound(below, random.Uniform() * sum);
    drawn.push_back(std::min(at - below.begin(), rows - 1));
  }
  return drawn;
}

TEST(ZipfAccess, AgreesWithRowsDrawnOneByOne) {
  for (const double exponent : {0.0, 0.6, 1.0, 1.3}) {
    const int64_t rows = 20000, lookups = 200000;
    const auto drawn = AccessOf(DrawRows(lookups, rows, exponent), rows);
    ASSERT_TRUE(drawn.ok());
    const TableAccess expected = ZipfAccess(lookups, rows, exponent);
    // A binomial count of about 10,000 rows has a standard deviation below 100.
    EXPECT_NEAR(static_cast<double>(expected.unique_rows), static_cast<double>(drawn->unique_rows),
                0.02 * static_cast<double>(expected.unique_rows))
        << exponent;
    for (size_t b = 0; b < kReuseBins; ++b) {
      EXPECT_NEAR(expected.reuse.fractions[b], drawn->reuse.fractions[b], 0.02)
          << exponent << " " << b;
    }
  }
}

}  // namespace
}  // namespace foretrace
