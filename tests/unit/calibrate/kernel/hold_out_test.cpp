#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "simulator/calibrate/kernel/kernel_fitter.h"

namespace foretrace {
namespace {

// The lines of the rows of which `seed` leaves twenty.
std::set<int64_t> Twenty(const std::vector<BenchmarkRow>& rows, uint64_t seed) {
  const auto split = KernelFitter().Split(rows, "twenty", seed);
  EXPECT_TRUE(split.ok()) << split.status();
  std::set<int64_t> lines;
  for (const BenchmarkRow& row : split->train) lines.insert(row.line);
  EXPECT_EQ(split->test.size(), rows.size() - lines.size());
  return lines;
}

TEST(HoldOut, TwentyAreOthersForEachSeed) {
  std::vector<BenchmarkRow> rows(100);
  for (size_t i = 0; i < rows.size(); ++i) {
    rows[i].op = "linear";
    rows[i].dtype = "float32";
    rows[i].line = static_cast<int64_t>(i);
  }
  std::set<int64_t> all;
  for (uint64_t seed = 1; seed <= 5; ++seed) {  // every fifth row
    const std::set<int64_t> lines = Twenty(rows, seed);
    EXPECT_EQ(lines.size(), 20U);
    all.insert(lines.begin(), lines.end());
  }
  EXPECT_EQ(all.size(), rows.size());
  EXPECT_TRUE(Twenty(rows, 1).contains(0));
  EXPECT_EQ(Twenty(rows, 6), Twenty(rows, 1));
}

}  // namespace
}  // namespace foretrace
