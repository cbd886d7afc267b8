#include "simulator/cost/embedding/reuse_factors.h"

#include <gtest/gtest.h>

#include <vector>

#include "simulator/cost/embedding/embedding_model.h"

namespace foretrace {
namespace {

// Figure 6 of the multi-GPU paper: 14 lookups of 8 rows, of which three are used once, four twice
// and one three times.
const std::vector<int64_t> kFigure6 = {0, 1, 4, 6, 1, 2, 3, 5, 7, 0, 5, 7, 1, 6};

TEST(ReuseFactors, PaperFigure6) {
  const auto access = AccessOf(kFigure6, 8);
  ASSERT_TRUE(access.ok());
  EXPECT_EQ(access->lookups, 14);
  EXPECT_EQ(access->unique_rows, 8);
  EXPECT_DOUBLE_EQ(access->reuse.fractions[0], 0);
  EXPECT_DOUBLE_EQ(access->reuse.fractions[1], 3.0 / 8);            // once
  EXPECT_DOUBLE_EQ(access->reuse.fractions[2], 4.0 / 8 + 1.0 / 8);  // twice or three times
}

TEST(ReuseFactors, BinsAreClosedOnTheLeft) {
  EXPECT_EQ(ReuseBin(0), 0);
  EXPECT_EQ(ReuseBin(1), 1);
  EXPECT_EQ(ReuseBin(2), 2);
  EXPECT_EQ(ReuseBin(3), 2);
  EXPECT_EQ(ReuseBin(4), 3);
  EXPECT_EQ(ReuseBin(32767), 15);
  EXPECT_EQ(ReuseBin(32768), 16);
  EXPECT_EQ(ReuseBin(int64_t{1} << 40), 16);
}

TEST(ReuseFactors, IndicesOutsideOfTheTableAreRefused) {
  EXPECT_FALSE(AccessOf(std::vector<int64_t>{8}, 8).ok());
  EXPECT_FALSE(AccessOf(std::vector<int64_t>{-1}, 8).ok());
  EXPECT_TRUE(AccessOf({}, 8).ok());
}

// Half of the rows once, half two or three times: 1.75 lookups a row.
TEST(ReuseFactors, RowsBehindLookups) {
  ReuseFactors reuse;
  reuse.fractions[1] = reuse.fractions[2] = 0.5;
  EXPECT_DOUBLE_EQ(EstimatedUniqueRows(reuse, 175, 1000), 100);
  EXPECT_DOUBLE_EQ(EstimatedUniqueRows(reuse, 175, 80), 80);
}

// Half of the rows once; counts 2; 3 and 4, of which 4 moves up.
TEST(ReuseFactors, RebinsRightClosedBins) {
  const ReuseFactors reuse = FromRightClosedBins({0.5, 0.25, 0.25});
  EXPECT_DOUBLE_EQ(reuse.fractions[1], 0.5);           // count 1
  EXPECT_DOUBLE_EQ(reuse.fractions[2], 0.25 + 0.125);  // count 2, and 3 of {3, 4}
  EXPECT_DOUBLE_EQ(reuse.fractions[3], 0.125);         // count 4
}

TEST(HitRate, EverythingFitsOrNothing) {
  ReuseFactors reuse;
  reuse.fractions[3] = 1;  // every row 4 to 7 times
  // All rows cached: every lookup but the first of each row hits.
  EXPECT_DOUBLE_EQ(HitRate(reuse, 4000, 1000, 1000), 0.75);
  EXPECT_DOUBLE_EQ(HitRate(reuse, 0, 0, 10), 0);
  EXPECT_LT(HitRate(reuse, 4000, 1000, 1), 0.01);
  double last = 0;
  for (double rows = 1; rows <= 1000; rows *= 2) {
    const double hits = HitRate(reuse, 4000, 1000, rows);
    EXPECT_GE(hits, last);
    last = hits;
  }
}

TEST(EmbeddingModel, MoreReuseIsFaster) {
  const GpuPeaks device = *FindGpuPeaks("a100-sxm4-40gb");
  const auto us = [&](double unique) {
    TableLookup table{65536, 1e7, 128, 20, {}, unique};
    table.reuse.fractions[1] = 1;
    const EmbeddingQuery query{{table}};
    return LookupTime({}, device, query, TrafficOf(device, query), LookupPass::kForward)
        .kernel.us();
  };
  EXPECT_LT(us(1e4), us(1e6));
  // Without any reuse all 65536 * 20 rows of 512 bytes come from DRAM.
  TableLookup table{65536, 1e7, 128, 20, {}, 65536.0 * 20};
  const EmbeddingQuery query{{table}};
  const EmbeddingTime t =
      LookupTime({}, device, query, TrafficOf(device, query), LookupPass::kForward);
  EXPECT_DOUBLE_EQ(t.hit_rate, 0);
  EXPECT_DOUBLE_EQ(t.dram_bytes.count(), 65536.0 * 20 * (512 + 8) + 65536.0 * (8 + 512));
}

}  // namespace
}  // namespace foretrace
