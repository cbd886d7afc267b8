#include "simulator/cost/kernel/kernels_beside.h"

#include <gtest/gtest.h>

#include <cmath>

#include "simulator/cost/kernel/gpu_peaks.h"
#include "simulator/cost/operator/kernel_work.h"

namespace foretrace {
namespace {

KernelWork Work(const OperatorCall::Shape& shape, Direction pass = Direction::kForward) {
  return Kernels({shape, DType::kBFloat16, pass}).front();
}

HeldDevice Held(double multiprocessors, double gbps = 0, bool in_clusters = true) {
  return {multiprocessors, in_clusters, Bandwidth::GBps(gbps)};
}

constexpr double kFewer = 0.15;  // of a wave, how much goes with the multiprocessors it runs on
double Wave(double running, double all) { return 1 - kFewer + kFewer * running / all; }

// 1,024 tiles on the 66 pairs of 132 multiprocessors: seven waves and 50 pairs. Beside 24 held in
// clusters 54 pairs: twelve find none, so that the others do 500 in nine waves and 14 pairs, and
// those twelve do their first in one more.
TEST(KernelsBesideTest, PairsThatFindNoMultiprocessorsDoTheirFirstTileLast) {
  const SharedDevice device{132, Bandwidth::GBps(3350), true};
  const KernelDemand gemm{1024, 0, 0};
  const double alone = 7 + Wave(50, 66);
  const auto of_part = [](double pairs) { return Wave(54, 66) * Wave(pairs, 54); };
  EXPECT_NEAR(TimesBeside(gemm, device, Held(24)),
              (9 * Wave(54, 66) + of_part(14) + of_part(12)) / alone, 1e-9);
  // Any 24 leave half of the eight groups with one that has no partner: two pairs fewer.
  EXPECT_NEAR(TimesBeside(gemm, device, Held(24, 0, false)), TimesBeside(gemm, device, Held(28)),
              1e-9);
  // One wave becomes two where not all pairs find a place, and stays one where they do.
  const KernelDemand wave{128, 0, 0};
  EXPECT_NEAR(TimesBeside(wave, device, Held(4)), 1, 1e-9);
  EXPECT_GT(TimesBeside(wave, device, Held(8)), 1.8);
}

// 216 tiles on 108 multiprocessors, each a block that ends with it: two waves; beside 24 that are
// held 84 at a time, two waves and 48 more.
TEST(KernelsBesideTest, BlocksThatPassFillTheMultiprocessorsLeft) {
  const SharedDevice device{108, Bandwidth::GBps(2039), false};
  const double last = 1 - 0.8 + 0.8 * 48 / 84;
  EXPECT_NEAR(TimesBeside({216, 0, 0}, device, Held(24)), Wave(84, 108) * (2 + last) / 2, 1e-9);
}

TEST(KernelsBesideTest, OthersGoWithWhatIsLeft) {
  const SharedDevice device{100, Bandwidth::GBps(1000), true};
  EXPECT_NEAR(TimesBeside({0, 1, 0}, device, Held(20)), 1.25, 1e-9);
  EXPECT_NEAR(TimesBeside({0, 0, 1}, device, Held(20, 450)), 2, 1e-9);  // half of 900 GB/s
  EXPECT_NEAR(TimesBeside({0, 0.5, 0.5}, device, Held(20, 450)), std::sqrt(2.5), 1e-9);
  EXPECT_EQ(TimesBeside({0, 1, 1}, device, {}), 1);
  // Not more than the device has, and not less than 1 of what has a single multiprocessor.
  EXPECT_EQ(TimesBeside({500, 0, 1}, {1, Bandwidth::GBps(10), true}, Held(1)), 1);
  EXPECT_TRUE(std::isfinite(TimesBeside({0, 1, 1}, device, Held(200, 5000))));
  EXPECT_TRUE(std::isfinite(TimesBeside({500, 0, 1}, device, Held(200, 5000))));
}

TEST(KernelsBesideTest, DemandsAreThoseOfTheKernel) {
  const auto device = FindGpuPeaks("h100-sxm5-80gb");
  ASSERT_TRUE(device.ok()) << device.status();
  const auto demand = [&](const KernelWork& work) {
    return DemandOf(*device, Precision::kHalf, work);
  };
  // Tiles of 256 x 128: 32 x 32.
  EXPECT_EQ(demand(Work(LinearOp{8192, 4096, 4096})).tiles, 1024);
  // A GEMM of one row is bound by its weights' bytes.
  const KernelDemand streaming = demand(Work(ElementwiseOp{1 << 20, 1 << 20}));
  EXPECT_EQ(demand(Work(LinearOp{1, 4096, 4096})), streaming);
  const AttentionOp attention{1, 32, 32, 4096, 4096, 128, true, true};
  EXPECT_LT(demand(Work(attention)).memory, streaming.memory);
  EXPECT_GT(demand(Work(attention)).multiprocessors, streaming.multiprocessors);
  EXPECT_TRUE(SharedBy(*device).in_pairs);
  EXPECT_FALSE(SharedBy(FindGpuPeaks("a100-sxm4-80gb").value()).in_pairs);
  EXPECT_EQ(SharedBy(*device).multiprocessors, 132);
}

}  // namespace
}  // namespace foretrace
