#include "simulator/cost/kernel/chunked_steps.h"

#include <gtest/gtest.h>

#include <cmath>

#include "simulator/cost/kernel/kernel_model.h"

namespace foretrace {
namespace {

constexpr std::string_view kFused =
    "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous "
    "namespace)::FusedOptimizerTensorListMetadata<4>, at::native::(anonymous "
    "namespace)::FusedAdamMathFunctor<float, 4, (at::native::ADAM_MODE)1, false> >";
constexpr std::string_view kScaled =
    "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous "
    "namespace)::TensorListMetadata<1>, at::native::(anonymous "
    "namespace)::BinaryOpScalarTensorFunctor<float, 1, 1, 0>, std::multiplies<float> >";
constexpr std::string_view kNorm =
    "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous "
    "namespace)::TensorListMetadata<1>, at::native::(anonymous namespace)::LpNormFunctor<float, "
    "(at::native::NormType)1, float, 1, 1, 0>, float*, int>";

LaunchAttr Blocks(uint32_t blocks) { return {{blocks, 1, 1}, {512, 1, 1}}; }
GpuPeaks H100() { return *FindGpuPeaks("h100-sxm5-80gb"); }

// Of the 320 chunks of fused Adam an H100 holds 264 at once: 2 blocks of 60 registers a thread on
// each of 132 multiprocessors. At 0.94 of 3.35 TB/s a chunk of seven lists takes 65,536 x 28 B /
// 3.149 TB/s = 0.583 us, all 186.5 and the last 56 32.6; alone these take 32 steps of three trips
// of 700 cycles at 1.83 GHz, 36.7 us: sqrt(32.6^2 + 36.7^2) - 32.6 = 16.5 us more.
TEST(ChunkedSteps, TheLastChunksOfAFusedStepRunByThemselves) {
  const LaunchAttr attr = Blocks(320);
  const Launch launch{.name = kFused, .waves_milli = 1212, .attr = &attr};
  EXPECT_NEAR(BandwidthShareOfChunks(launch, H100()), 0.94 * 186.5 / (186.5 + 16.5), 1e-3);
  const auto work = WorkOfChunks(launch, H100(), DType::kFloat32);
  ASSERT_TRUE(work.has_value());
  EXPECT_EQ(work->read, Bytes(int64_t{320} * 65536 * 16));
  EXPECT_EQ(work->written, Bytes(int64_t{320} * 65536 * 12));
  // 587 MB at 0.9 of the peak and that share; llama3-8b-l4-s8192-b1-none's take 216 to 275 us.
  KernelModels models(H100(), {});
  const double us = models.Predict(*work, Precision::kFloat32).time.us();
  EXPECT_GT(us, 216);
  EXPECT_LT(us, 275);
}

// Operations by foreach hold four blocks a multiprocessor, so that none is left for a second wave.
TEST(ChunkedSteps, FullLaunchesFollowEachOther) {
  const LaunchAttr full = Blocks(320), last = Blocks(319);
  EXPECT_EQ(BandwidthShareOfChunks({.name = kScaled, .waves_milli = 606, .attr = &full}, H100()),
            0.94);
  EXPECT_EQ(BandwidthShareOfChunks({.name = kScaled, .waves_milli = 604, .attr = &last}, H100()),
            1);
  const GpuPeaks gddr6 = *FindGpuPeaks("rtx-2080-ti");
  EXPECT_EQ(BandwidthShareOfChunks({.name = kScaled, .waves_milli = 606, .attr = &full}, gddr6), 1);
  EXPECT_EQ(BandwidthShareOfChunks(
                {.name = "vectorized_elementwise_kernel<4, f>", .waves_milli = 606, .attr = &full},
                H100()),
            1);
}

TEST(ChunkedSteps, NormsReadAlone) {
  const LaunchAttr attr = Blocks(320);
  const auto work =
      WorkOfChunks({.name = kNorm, .waves_milli = 606, .attr = &attr}, H100(), DType::kFloat32);
  ASSERT_TRUE(work.has_value());
  EXPECT_EQ(work->read, Bytes(int64_t{320} * 65536 * 4));
  EXPECT_EQ(work->written, Bytes(0));
  EXPECT_EQ(work->kind, KernelKind::kOptimizer);
}

}  // namespace
}  // namespace foretrace
