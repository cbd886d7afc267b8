#include "simulator/importers/tables/locality_stats.h"

#include <gtest/gtest.h>

namespace foretrace {
namespace {

TEST(LocalityStats, ReadsTotalsAndShares) {
  std::string text =
      "file_a.pt\nAvg # of indices: 100\nAvg # of unique cols: 20\n"
      "Histogram of col sizes:\n";
  for (size_t bin = 0; bin < kLocalityBins; ++bin) {
    text += fmt::format("(x: {}\n", bin == 0 ? 0.5 : bin < 3 ? 0.25 : 0);
  }
  const auto stats = ParseLocalityStats("t", text);
  ASSERT_TRUE(stats.ok()) << stats.status();
  ASSERT_EQ(stats->size(), 1u);
  EXPECT_EQ(stats->front().file, "file_a.pt");
  EXPECT_EQ(stats->front().lookups, 100);
  EXPECT_EQ(stats->front().unique_rows, 20);
  EXPECT_EQ(stats->front().by_count[0], 0.5);
  EXPECT_EQ(stats->front().by_count[2], 0.25);
}

TEST(LocalityStats, RefusesWhatIsNone) {
  EXPECT_FALSE(ParseLocalityStats("t", "nothing here").ok());
  EXPECT_FALSE(ParseLocalityStats("t", "a.pt\nHistogram of col sizes:\n(0, 1]: 0.5\n\n").ok());
}

}  // namespace
}  // namespace foretrace
