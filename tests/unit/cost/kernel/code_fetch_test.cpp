#include "simulator/cost/kernel/code_fetch.h"

#include <gtest/gtest.h>

namespace foretrace {
namespace {

constexpr std::string_view kGemm = "volta_sgemm_128x32_nn";

TEST(CodeFetch, WhatRanLastStays) {
  CodeCache cache;
  EXPECT_TRUE(cache.Run(1, 60 << 10));
  EXPECT_TRUE(cache.Run(2, 60 << 10));
  EXPECT_FALSE(cache.Run(1, 60 << 10));
  EXPECT_TRUE(cache.Run(3, 60 << 10));  // 180 of 128 KiB: 2 ran least lately
  EXPECT_FALSE(cache.Run(1, 60 << 10));
  EXPECT_TRUE(cache.Run(2, 60 << 10));
}

TEST(CodeFetch, WhatIsLargerThanTheCacheDisplacesTheRest) {
  CodeCache cache;
  cache.Run(1, 1 << 10);
  EXPECT_TRUE(cache.Run(2, 1 << 20));
  EXPECT_FALSE(cache.Run(2, 1 << 20));
  EXPECT_TRUE(cache.Run(1, 1 << 10));
}

TEST(CodeFetch, VoltaWaitsForUnrolledLoops) {
  EXPECT_TRUE(FetchesCodeOnDemand(*FindGpuPeaks("v100-sxm2-16gb")));
  EXPECT_FALSE(FetchesCodeOnDemand(*FindGpuPeaks("a100-sxm4-40gb")));
  EXPECT_FALSE(FetchesCodeOnDemand(*FindGpuPeaks("h100-sxm5-80gb")));
  const GpuPeaks v100 = *FindGpuPeaks("v100-sxm2-16gb");
  // 14 KiB beyond the first two: 112 lines of 50 cycles at 1,530 MHz.
  EXPECT_NEAR(CodeFetchTime(v100, kGemm).us(), 112 * 50 / 1530.0, 1e-3);
  EXPECT_LT(CodeFetchTime(v100, "void gemmSN_TN_kernel<float, 128>"), CodeFetchTime(v100, kGemm));
  EXPECT_EQ(CodeFetchTime(v100, "void gemvNSP_kernel<float>"), SimTime());
  EXPECT_EQ(CodeFetchTime(v100, "void at::native::vectorized_elementwise_kernel<4>"), SimTime());
}

}  // namespace
}  // namespace foretrace
