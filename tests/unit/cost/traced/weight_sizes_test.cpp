#include "simulator/cost/traced/weight_sizes.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tests/support/job_script.h"

namespace foretrace {
namespace {

// Copies within the device of so many elements of two bytes, one after the other, by rank 0 of
// `ranks`; `other`: a kernel between.
WeightSizes Sizes(int ranks, const std::vector<int64_t>& elements, bool other = false) {
  JobScript job(ranks);
  for (int rank = 1; rank < ranks; ++rank) job.rank(rank).Op("nothing", {0, 1});
  double at = 0;
  for (const int64_t count : elements) {
    const std::string name = "copy " + std::to_string(at);
    RankScript& rank = job.rank(0);
    rank.SyncCopy(name, MemcpyKind::kDeviceToDevice, {at, at + 1}, 7, {at + 2, at + 3});
    rank.CopiedBytes(name, 2 * count);
    if (other) rank.InFlight("kernel " + name, 7, {at + 4, at + 5});
    at += 10;
  }
  const TraceStore store = job.Build();
  const auto device = *FindGpuPeaks("h100-sxm5-80gb");
  const RankTrace& rank = store.ranks()[0];
  return {store, rank, MovedElements(store, rank, device, 4), Bytes(2)};
}

TEST(WeightSizes, AreThoseOfARun) {
  const std::vector<int64_t> layer = {4096, 4096, 16777216, 16777216, 4194304, 58720256};
  const WeightSizes sizes = Sizes(1, layer);
  for (const int64_t size : layer) EXPECT_TRUE(sizes.Has(size)) << size;
  EXPECT_FALSE(sizes.Has(4095));
  EXPECT_EQ(sizes.largest(), 58720256);
  EXPECT_TRUE(sizes.HasVector(4096));
  // An operator's arguments, or copies between other work, are not all of a layer's.
  EXPECT_TRUE(Sizes(1, {4096, 16777216, 4096}).all().empty());
  EXPECT_TRUE(Sizes(1, layer, true).all().empty());
}

// Of eight ranks each has an eighth.
TEST(WeightSizes, ShardsMakeWholes) {
  const WeightSizes sizes = Sizes(8, {512, 512, 2097152, 2097152, 524288, 7340032});
  for (const int64_t whole : {4096, 16777216, 4194304, 58720256}) {
    EXPECT_TRUE(sizes.Has(whole)) << whole;
  }
}

}  // namespace
}  // namespace foretrace
