#include "simulator/cost/embedding/embedding_model.h"

#include <gtest/gtest.h>

namespace foretrace {
namespace {

// 2,048 bags of 50 rows of 64 floats of a table that the cache holds, by an A100's own clocks:
// 3 us, and 26.2 MB of rows beside indices and results at 990 GB/s.
TEST(EmbeddingModel, BagsAreLookedUpByTheirOwnKernel) {
  EmbeddingModels models;
  models.at(LookupKernels::kBatched, LookupPass::kForward).points = 10;
  const auto choice = models.Choose(LookupKernels::kBag, LookupPass::kForward);
  EXPECT_FALSE(choice.other_kernels);
  EXPECT_EQ(choice.source(), EstimateSource::kAnalytic);
  EXPECT_TRUE(models.Choose(LookupKernels::kBag, LookupPass::kUpdate).model != nullptr);

  const GpuPeaks a100 = *FindGpuPeaks("a100-sxm4-40gb");
  EmbeddingQuery query;
  query.tables = {{.batch = 2048, .rows = 1000, .dim = 64, .pooling = 50}};
  const EmbeddingTraffic traffic = TrafficOf(a100, query);
  const double bytes = 102400 * 64 * 4 + (102400 + 2048) * 8 + 2048 * 64 * 4;
  EXPECT_NEAR(choice.model->Time(a100, query, traffic, LookupPass::kForward).kernel.us(),
              3 + bytes / 990e3, 0.3);
  // One long bag: 5,000 lookups one after the other.
  query.tables = {{.batch = 1, .rows = 1000, .dim = 64, .pooling = 5000}};
  EXPECT_NEAR(
      choice.model->Time(a100, query, TrafficOf(a100, query), LookupPass::kForward).kernel.us(),
      3 + 5000 * 0.21, 1);
}

}  // namespace
}  // namespace foretrace
