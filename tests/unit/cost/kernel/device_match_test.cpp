#include "simulator/cost/kernel/device_match.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "simulator/cost/kernel/analytic_gemm.h"

namespace foretrace {
namespace {

using ::testing::HasSubstr;

std::shared_ptr<const KernelModels> CalibratedOn(std::string_view name) {
  return std::make_shared<const KernelModels>(*FindGpuPeaks(name), std::vector<KernelModel>());
}

TEST(KernelsOn, TheSameDeviceTakesThemAsTheyAre) {
  std::vector<std::string> notes;
  const auto calibrated = CalibratedOn("v100-sxm2-32gb");
  const auto kernels = KernelsOn(*FindGpuPeaks("v100-sxm2-16gb"), calibrated, "c", notes);
  ASSERT_TRUE(kernels.ok()) << kernels.status();
  EXPECT_EQ(*kernels, calibrated);
  EXPECT_TRUE(notes.empty());
}

TEST(KernelsOn, ASiblingHasItsOwnRatesAndSaysSo) {
  std::vector<std::string> notes;
  const auto kernels =
      KernelsOn(*FindGpuPeaks("a100-sxm4-40gb"), CalibratedOn("a100-sxm4-80gb"), "c", notes);
  ASSERT_TRUE(kernels.ok()) << kernels.status();
  EXPECT_EQ((*kernels)->device().dram_gbps, 1555);
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_THAT(notes[0], HasSubstr("calibrated on a100-sxm4-80gb and carried over to"));
}

TEST(KernelsOn, AnotherDeviceIsRefusedWithWhatToDo) {
  std::vector<std::string> notes;
  const auto kernels = KernelsOn(*FindGpuPeaks("h100"), CalibratedOn("v100-sxm2"), "c", notes);
  ASSERT_FALSE(kernels.ok());
  EXPECT_THAT(std::string(kernels.status().message()),
              HasSubstr("c is of v100-sxm2-16gb, but the device to predict for is h100-sxm5-80gb"));
}

// A model of GEMMs that measured one of 1 x 8192 x 8192 twice as slow as its roofline.
KernelModels Measured(std::string_view name) {
  KernelModel model;
  model.form = KernelForm::kGemm;
  model.key = {KernelKind::kGemm, Precision::kHalf, Direction::kForward, 0};
  model.gemm.bandwidth_efficiency = 1;
  std::vector<MeasuredShape> shapes;
  for (int64_t m = 1; m <= 8; ++m) shapes.push_back({m, 8192, 8192, 1, std::log(2.0f)});
  model.measured = MeasuredShapes::Select(shapes);
  return KernelModels(*FindGpuPeaks(name), {model});
}

double SkinnyUs(const KernelModels& models) {
  const KernelWork work =
      Kernels({LinearOp{1, 8192, 8192}, DType::kBFloat16, Direction::kForward}).front();
  return models.Predict(work, Precision::kHalf).time.us();
}

TEST(CarriedTo, ASiblingKeepsWhatWasMeasuredByTheRatioOfRooflines) {
  // 134 MB at 3,350 and at 4,800 GB/s: bound by memory but for the start.
  const KernelModels h100 = Measured("h100-sxm5-80gb");
  const KernelModels h200 = CarriedTo(*FindGpuPeaks("h200-sxm5"), h100);
  EXPECT_NEAR(SkinnyUs(h200) / SkinnyUs(h100), 3350.0 / 4800, 0.02);
  EXPECT_GT(SkinnyUs(h200), 1.9 * 134.2e6 / 4800e3);
}

// Boards of one chip differ by their power: a GB200 keeps up 1,383 TFLOP/s where a B200 keeps up
// 1,110, though its peak is 1.11 times as high.
TEST(CarriedTo, ASiblingKeepsUpWhatItsPowerAllows) {
  const GpuPeaks b200 = *FindGpuPeaks("b200-sxm"), gb200 = *FindGpuPeaks("gb200");
  const GpuPeaks rates = RatesBeside(gb200, b200);
  EXPECT_NEAR(rates.fp16_tflops, 2250 * 1383.0 / 1110, 1e-9);
  EXPECT_EQ(rates.dram_gbps, gb200.dram_gbps);
  KernelModel model;
  model.form = KernelForm::kGemm;
  model.key = {KernelKind::kGemm, Precision::kHalf, Direction::kForward, 0};
  const KernelModels measured(b200, {model});
  const KernelWork work =
      Kernels({LinearOp{16384, 16384, 16384}, DType::kBFloat16, Direction::kForward}).front();
  const auto us = [&](const KernelModels& models) {
    return models.Predict(work, Precision::kHalf).time.us();
  };
  EXPECT_NEAR(us(measured) / us(CarriedTo(gb200, measured)), 1383.0 / 1110, 0.01);
  // Boards whose files do not say it go by their peaks.
  const GpuPeaks a100 = *FindGpuPeaks("a100-sxm4-40gb");
  EXPECT_EQ(RatesBeside(a100, *FindGpuPeaks("a100-sxm4-80gb")).fp16_tflops, a100.fp16_tflops);
}

TEST(CarriedTo, AnotherChipHasItsRooflineAlone) {
  const KernelModels b200 = CarriedTo(*FindGpuPeaks("b200-sxm"), Measured("h100-sxm5-80gb"));
  EXPECT_NEAR(SkinnyUs(b200), 2 + 134.2e6 / 7672e3, 0.1 * 134.2e6 / 7672e3);
}

// Float32 on multiprocessors: the T4's 70 W keep up 4.4 of the 8.1 TFLOP/s of its boost clock, the
// V100's 250 W all of them. A roofline of the one carried to the other follows what they keep up.
TEST(GpuPeaks, BoardsThatCannotHoldTheirClockAreJudgedByWhatTheyKeepUp) {
  const GpuPeaks t4 = *FindGpuPeaks("t4"), v100 = *FindGpuPeaks("v100-pcie-32gb");
  EXPECT_EQ(t4.fp32_tflops, 8.1);
  EXPECT_EQ(t4.peak_tflops(Precision::kFloat32), 4.4);
  EXPECT_EQ(t4.peak_tflops(Precision::kHalf), 65);
  EXPECT_EQ(v100.peak_tflops(Precision::kFloat32), v100.fp32_tflops);
}

TEST(CarriedTo, FloatGemmsTakeAsLongAsTheBoardKeepsUp) {
  KernelModel model;
  model.form = KernelForm::kGemm;
  model.key = {KernelKind::kGemm, Precision::kFloat32, Direction::kForward, 0};
  const KernelModels v100(*FindGpuPeaks("v100-pcie-32gb"), {model});
  const KernelModels t4 = CarriedTo(*FindGpuPeaks("t4"), v100);
  const KernelWork work =
      Kernels({LinearOp{8192, 8192, 8192}, DType::kFloat32, Direction::kForward}).front();
  const auto us = [&](const KernelModels& on) {
    return on.Predict(work, Precision::kFloat32).time.us();
  };
  // 80 and 40 multiprocessors, of which waves fill 4,096 / 80 = 51.2 and 102.4 times.
  EXPECT_NEAR(us(t4) / us(v100), v100.device().fp32_tflops / 4.4, 0.02 * 14 / 4.4);
}

// The A100 runs cuBLAS's kernels for Ampere on its multiprocessors, the T4 those for Volta, which
// are alike; the P100 those for Maxwell, of which a fit to the A100 says nothing but what its
// benchmark adds. On tensor cores Volta's are not Ampere's.
TEST(CarriedTo, KernelsOfAnotherKindAreTheFilesAlone) {
  const GpuPeaks a100 = *FindGpuPeaks("a100-pcie-40gb"), p100 = *FindGpuPeaks("p100-pcie");
  const auto slow = [&](Precision precision) {
    KernelModel model;
    model.form = KernelForm::kGemm;
    model.key = {KernelKind::kGemm, precision, Direction::kForward, 0};
    model.gemm.compute_efficiency = 0.1;
    model.measurement.overhead_us = 30;
    return KernelModels(a100, {model});
  };
  const auto times = [](const GpuPeaks& device, const KernelModels& fitted, Precision precision) {
    const DType dtype = precision == Precision::kHalf ? DType::kFloat16 : DType::kFloat32;
    const KernelWork work =
        Kernels({LinearOp{8192, 8192, 8192}, dtype, Direction::kForward}).front();
    return CarriedTo(device, fitted).Predict(work, precision).time.us() /
           AnalyticGemmUs(device, precision, work);
  };
  const KernelModels fp32 = slow(Precision::kFloat32);
  EXPECT_NEAR(times(p100, fp32, Precision::kFloat32), 1, 1e-6);
  EXPECT_GT(times(*FindGpuPeaks("t4"), fp32, Precision::kFloat32), 5);
  EXPECT_EQ(CarriedTo(p100, fp32).models()[0].measurement.overhead_us, 30);
  // Of batches the V100 has several kernels, the A100 one.
  const GpuPeaks v100 = *FindGpuPeaks("v100-pcie-32gb");
  EXPECT_TRUE(SameGemmKernels(a100, v100, Precision::kFloat32, KernelKind::kGemm));
  EXPECT_FALSE(SameGemmKernels(a100, v100, Precision::kFloat32, KernelKind::kBatchedGemm));
  EXPECT_TRUE(
      SameGemmKernels(a100, *FindGpuPeaks("l40s"), Precision::kFloat32, KernelKind::kBatchedGemm));
  const KernelModels half = slow(Precision::kHalf);
  EXPECT_NEAR(times(*FindGpuPeaks("v100-sxm2-32gb"), half, Precision::kHalf), 1, 1e-6);
  EXPECT_NEAR(times(*FindGpuPeaks("h100"), half, Precision::kHalf), 1, 1e-6);
  EXPECT_GT(times(*FindGpuPeaks("l40s"), half, Precision::kHalf), 5);
}

}  // namespace
}  // namespace foretrace
