#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "simulator/cost/kernel/kernel_features.h"
#include "simulator/cost/kernel/kernel_model.h"
#include "tests/unit/cost/kernel/work_on_a100.h"

namespace foretrace {
namespace {

TEST(GpuPeaksTest, EightBitsRunAtTheirRateOrWidened) {
  // The H100's datasheet: 989.4 TFLOP/s in 16 bits, 1,978.9 in 8; the A100 widens them, at 312.
  EXPECT_EQ(PrecisionOf(DType::kFloat8, true), Precision::kFloat8);
  EXPECT_EQ(FindGpuPeaks("h100-sxm5-80gb")->peak_tflops(Precision::kFloat8), 1978.9);
  EXPECT_EQ(FindGpuPeaks("a100-sxm4-80gb")->peak_tflops(Precision::kFloat8), 312);
  // A GEMM of 8192 bound by its FLOP, where 16 bits alone were measured: half their time.
  KernelModel half;
  half.key = KeyOf(Only(LinearOp{8, 8, 8}, DType::kFloat16), Precision::kHalf);
  half.form = KernelForm::kGemm;
  half.gemm = {0, 0.7, 0, 1};
  const KernelModels models(*FindGpuPeaks("h100-sxm5-80gb"), {half});
  const auto us = [&](DType dtype) {
    const KernelWork work = Only(LinearOp{8192, 8192, 8192}, dtype);
    return models.Predict(work, PrecisionOf(dtype, false)).time.us();
  };
  EXPECT_NEAR(us(DType::kFloat8) / us(DType::kFloat16), 989.4 / 1978.9, 0.01);
}

// Nothing calibrated: 32 heads of 128 over 8,192 tokens, causal, as cuDNN's kernels take them on an
// H100 (llama3-8b-l4-s8192-b1-none of traces/captured: 0.93 to 1.01 and 2.9 to 3.4 ms). A table of
// GEMMs on other units than theirs says no more.
TEST(KernelModels, AttentionWithoutATableRunsOnTensorCores) {
  KernelModel floats;
  floats.key = KeyOf(Only(LinearOp{8, 8, 8}, DType::kFloat32), Precision::kFloat32);
  floats.form = KernelForm::kGemm;
  const GpuPeaks device = *FindGpuPeaks("h100-sxm5-80gb");
  for (const std::vector<KernelModel>& known :
       {std::vector<KernelModel>(), std::vector<KernelModel>{floats}}) {
    const KernelModels models(device, known);
    const auto ms = [&](Direction pass) {
      const AttentionOp op{1, 32, 8, 8192, 8192, 128, true, true};
      return models.Predict(Kernels({op, DType::kBFloat16, pass})[0], Precision::kHalf).time.us() /
             1000;
    };
    EXPECT_NEAR(ms(Direction::kForward), 0.97, 0.05);
    EXPECT_NEAR(ms(Direction::kBackward), 3.15, 0.25);
  }
}

TEST(KernelModels, DecodesOfAttentionHaveAModelOfTheirOwn) {
  const auto name = [](int64_t queries, int64_t depth, Direction pass = Direction::kForward) {
    const AttentionOp op{4, 32, 8, queries, 4096, depth, queries > 1, true};
    return Name(KeyOf(Kernels({op, DType::kBFloat16, pass})[0], Precision::kHalf));
  };
  EXPECT_EQ(name(4096, 128), "attention half forward");
  EXPECT_EQ(name(1, 128), "attention/decode half forward");
  EXPECT_EQ(name(4096, 160), "attention half forward");
  EXPECT_EQ(name(4096, 128, Direction::kBackward), "attention half backward");
  EXPECT_EQ(name(4096, 160, Direction::kBackward), "attention/deep half backward");
  EXPECT_EQ(name(1, 160), "attention/decode half forward");
}

// Deep heads are answered by the model of shallow ones where they have none.
TEST(KernelModels, DeepHeadsRunLikeShallowOnesUnlessMeasured) {
  const auto work = [](int64_t depth) {
    const AttentionOp op{4, 32, 8, 4096, 4096, depth, true, true};
    return Kernels({op, DType::kBFloat16, Direction::kBackward})[0];
  };
  const auto model = [&](int64_t depth, double efficiency) {
    KernelModel m;
    m.key = KeyOf(work(depth), Precision::kHalf);
    m.form = KernelForm::kGemm;
    m.gemm = {0, efficiency, 0, 1};
    return m;
  };
  const auto us = [&](const KernelModels& models, int64_t depth) {
    const Estimate estimate = models.Predict(work(depth), Precision::kHalf);
    EXPECT_EQ(estimate.source, EstimateSource::kCalibrated);
    return estimate.time.us();
  };
  const GpuPeaks device = *FindGpuPeaks("h100-sxm5-80gb");
  const KernelModels shallow(device, {model(128, 0.8)});
  const KernelModels both(device, {model(128, 0.8), model(160, 0.4)});
  EXPECT_EQ(us(both, 128), us(shallow, 128));
  EXPECT_GT(us(both, 160), 1.3 * us(shallow, 160));
}

TEST(AttentionRooflineTest, BlocksOfOneMultiprocessorFollowEachOther) {
  // 27 sequences of 8 heads with one query each: 216 blocks, 2 for each of 108 multiprocessors.
  const KernelWork work = Only(AttentionOp{27, 8, 8, 1, 16, 64, false, true}, DType::kBFloat16);
  const GpuPeaks device = *FindGpuPeaks("a100-sxm4-80gb");
  GemmParameters p;
  p.block_us = 0.5;
  const double one = GemmRoofline(p, device, Precision::kHalf, work).compute_us;
  p.block_us = 1;
  EXPECT_NEAR(GemmRoofline(p, device, Precision::kHalf, work).compute_us, one + 2 * 0.5, 1e-9);
}

TEST(KernelFeatures, AttentionKnowsHowManyHeadsShareKeys) {
  // 4 sequences of 32 heads over 8 of keys: 128 heads, 32 of keys, 4 to a group; in log2 7, 5, 2.
  for (const Direction pass : {Direction::kForward, Direction::kBackward}) {
    const KernelWork work =
        Kernels({AttentionOp{4, 32, 8, 512, 4096, 128, false, true}, DType::kBFloat16, pass})[0];
    const KernelPoint point =
        GemmPoint(GemmParameters(), *FindGpuPeaks("a100-sxm4-80gb"), Precision::kHalf, work);
    EXPECT_NEAR(point.features[5], 7, 1e-3);
    EXPECT_NEAR(point.features[6], 5, 1e-3);
    EXPECT_NEAR(point.features[7], 2, 1e-3);
  }
}

}  // namespace
}  // namespace foretrace
