#include "simulator/cost/kernel/analytic_gemm.h"

#include <gtest/gtest.h>

#include "simulator/cost/kernel/kernel_model.h"
#include "tests/unit/cost/kernel/work_on_a100.h"

namespace foretrace {
namespace {

GpuPeaks Device(const char* name) { return *FindGpuPeaks(name); }

KernelWork Square(int64_t size, DType dtype) { return Only(LinearOp{size, size, size}, dtype); }

// Of warps: 0.95 of 312 TFLOP/s, of which tiles of 128 x 256, 85.3 FLOP for each operand, reach
// 85.3 / (85.3 + 11). 32 x 64 = 2,048 such tiles of 8,192 steps are 18.96 waves of 108, 19 with the
// last, each with 2 x 1.9 us of filling and draining. Other tiles are up to a fifth worse and weigh
// in.
TEST(AnalyticGemm, LargeOnesFillTensorCoresButForTheirPipelines) {
  const GpuPeaks a100 = Device("a100-sxm4-80gb");
  const double rate = 312e6 * 0.95 * 85.33 / 96.33 / 108;
  const double wave_us = 2 * 128 * 256 * 8192.0 / rate + 2 * 1.9;
  const double us = AnalyticGemmUs(a100, Precision::kHalf, Square(8192, DType::kBFloat16));
  EXPECT_NEAR(us / (19 * wave_us), 1.06, 0.05);
}

TEST(AnalyticGemm, WarpgroupsOverlapWhatWarpsWaitFor) {
  const GpuPeaks a100 = Device("a100-sxm4-80gb"), h100 = Device("h100-sxm5-80gb");
  EXPECT_LT(AnalyticGemm(h100, Precision::kHalf).wave_us,
            AnalyticGemm(a100, Precision::kHalf).wave_us);
  // Blackwell's are asynchronous too; Turing's and Ada's are not.
  EXPECT_EQ(AnalyticGemm(Device("b200-sxm"), Precision::kHalf).wave_us,
            AnalyticGemm(h100, Precision::kHalf).wave_us);
  EXPECT_EQ(AnalyticGemm(Device("l40s"), Precision::kHalf).wave_us,
            AnalyticGemm(a100, Precision::kHalf).wave_us);
}

// A multiprocessor of the V100 multiplies half of what the A100's does in a cycle, and takes
// operands out of shared memory as fast: of 128 x 256 tiles 85.3 / (85.3 + 5.5) is reached, where
// the A100 has 85.3 / (85.3 + 11).
TEST(AnalyticGemm, VoltasTilesWaitLessForTheirOperands) {
  const GpuPeaks v100 = Device("v100-sxm2-16gb"), a100 = Device("a100-sxm4-80gb");
  EXPECT_DOUBLE_EQ(AnalyticGemm(v100, Precision::kHalf).tile_intensity,
                   AnalyticGemm(a100, Precision::kHalf).tile_intensity / 2);
  EXPECT_EQ(AnalyticGemm(Device("t4"), Precision::kHalf).tile_intensity,
            AnalyticGemm(v100, Precision::kHalf).tile_intensity);
}

// A vector times a matrix of 28,672 x 4,096 in 16 bits reads 234.9 MB: on an H20 70.7 us at 0.83 of
// 4,000 GB/s. Its tensor cores, of 148 TFLOP/s, multiply rows in eights at least (wgmma's n): 1.88
// GFLOP, about half of that. Padded to 32 rows it would be 7.5 GFLOP, which took them 89 us at what
// tiles of 32 x 64 reach. An H100 has 6.7 times the arithmetic and 0.84 of the bandwidth, of which
// the vector shows the latter.
TEST(AnalyticGemm, VectorsFillNarrowTiles) {
  const KernelWork work = Only(LinearOp{1, 28672, 4096}, DType::kBFloat16);
  const double h20 = AnalyticGemmUs(Device("h20"), Precision::kHalf, work);
  EXPECT_GT(h20, 2.7 + 70.7);
  EXPECT_LT(h20, 1.10 * (2.7 + 70.7));
  EXPECT_LT(h20, 0.92 * AnalyticGemmUs(Device("h100-sxm5-80gb"), Precision::kHalf, work));
}

// TF32 is xmma's on those, whose tiles are 32 rows at least: one row multiplies as long as 32 do,
// of which an H20's 74 TFLOP/s show what its 4,000 GB/s leave.
TEST(AnalyticGemm, KernelsOfTf32HaveNoNarrowTiles) {
  const auto us = [](int64_t rows) {
    return AnalyticGemmUs(Device("h20"), Precision::kTensorFloat32,
                          Only(LinearOp{rows, 28672, 4096}, DType::kFloat32));
  };
  EXPECT_EQ(AnalyticGemm(Device("h20"), Precision::kTensorFloat32).narrowest_tile, 0);
  EXPECT_NEAR(us(1) / us(32), 1, 0.02);
}

// The B200's tensor cores have 2,250 TFLOP/s at the boost clock and 1,110 at its power limit.
TEST(AnalyticGemm, KeepsWithinThePowerLimit) {
  const GpuPeaks b200 = Device("b200-sxm");
  const KernelWork work = Square(16384, DType::kBFloat16);
  const double base_us = AnalyticGemm(b200, Precision::kHalf).base_us;
  EXPECT_NEAR(AnalyticGemmUs(b200, Precision::kHalf, work), base_us + work.flop.count() / 1110e6,
              1e-6);
}

// Without tensor cores frameworks add up in float32, at its rate, though the P100 multiplies packed
// halves twice as fast: a half-precision GEMM is no faster than its arithmetic in float32.
TEST(AnalyticGemm, HalfWithoutTensorCoresRunsAtTheRateOfFloat32) {
  const GpuPeaks p100 = Device("p100-pcie");
  EXPECT_FALSE(p100.has_tensor_cores(Precision::kHalf));
  EXPECT_EQ(p100.boost_tflops(Precision::kHalf), p100.fp32_tflops);
  const KernelWork work = Square(4096, DType::kFloat16);
  EXPECT_GT(AnalyticGemmUs(p100, Precision::kHalf, work),
            work.flop.count() / (p100.fp32_tflops * 1e6));
  EXPECT_TRUE(Device("t4").has_tensor_cores(Precision::kHalf));
  // Neither has 8 bits: Turing's operands are widened to the 16 that it has.
  EXPECT_TRUE(Device("t4").has_tensor_cores(Precision::kFloat8));
  EXPECT_FALSE(Device("t4").has_tensor_cores(Precision::kTensorFloat32));
}

// Batches of 64 x 128 results in float32: the A100's only tile has 128 x 128, so that 128 rows take
// no longer but for their bytes; the P100's has 64 x 128. NeuSight measured 1,077 us of 64 times
// 1,024 x 64 by 1,024 on the A100, at 8 TFLOP/s.
TEST(AnalyticGemm, BatchesHaveOneTile) {
  const auto us = [](const char* device, BatchedMatmulOp op) {
    return AnalyticGemmUs(Device(device), Precision::kFloat32, Only(op));
  };
  EXPECT_NEAR(
      us("a100-pcie-40gb", {216, 64, 128, 4096}) / us("a100-pcie-40gb", {216, 128, 128, 4096}), 1,
      0.05);
  EXPECT_NEAR(us("p100-pcie", {112, 64, 128, 4096}) / us("p100-pcie", {112, 128, 128, 4096}), 0.5,
              0.06);  // some of which is the memory's
  EXPECT_NEAR(us("a100-pcie-40gb", {64, 1024, 64, 1024}), 1077, 0.15 * 1077);
  // Linear layers choose, and so do batches on Hopper.
  EXPECT_LT(us("h100-sxm5-80gb", {216, 64, 128, 4096}),
            0.8 * us("h100-sxm5-80gb", {216, 128, 128, 4096}));
}

// What was measured without tensor cores says nothing of them, nor the other way round; of the same
// units it does.
TEST(AnalyticGemm, OtherUnitsSayNothing) {
  KernelModel slow;
  slow.form = KernelForm::kGemm;
  slow.key = {KernelKind::kGemm, Precision::kFloat32, Direction::kForward, 0};
  slow.gemm.compute_efficiency = 0.1;
  const KernelWork half = Square(4096, DType::kBFloat16), single = Square(4096, DType::kFloat32);
  const KernelModels fp32(A100(), {slow});
  EXPECT_NEAR(fp32.Predict(half, Precision::kHalf).time.us(),
              AnalyticGemmUs(A100(), Precision::kHalf, half), 1e-3);
  slow.key.precision = Precision::kTensorFloat32;
  const KernelModels tf32(A100(), {slow});
  EXPECT_NEAR(tf32.Predict(single, Precision::kFloat32).time.us(),
              AnalyticGemmUs(A100(), Precision::kFloat32, single), 1e-3);
  EXPECT_GT(tf32.Predict(half, Precision::kHalf).time.us(),
            5 * AnalyticGemmUs(A100(), Precision::kHalf, half));
}

// An operand of TF32 that lies across the reduction passes through registers, at 0.7 of the rate;
// weights of 8,192 squared are bound by that alone. In bf16 it makes no difference.
TEST(AnalyticGemm, HopperTakesTf32AlongTheReduction) {
  const GpuPeaks h100 = Device("h100-sxm5-80gb");
  KernelWork single = Square(8192, DType::kFloat32), half = Square(8192, DType::kBFloat16);
  const double along = AnalyticGemmUs(h100, Precision::kTensorFloat32, single);
  const double half_along = AnalyticGemmUs(h100, Precision::kHalf, half);
  single.across_reduction = half.across_reduction = 1;
  EXPECT_NEAR(AnalyticGemmUs(h100, Precision::kTensorFloat32, single), along / 0.7, 0.02 * along);
  EXPECT_EQ(AnalyticGemmUs(h100, Precision::kHalf, half), half_along);
}

// Rows of 431 elements are no whole loads: at 0.62 of the rate, and each access of an instruction's
// own. Rows that are, 2,048 x 1,280 by 1,280 in TF32, were measured: 27.8 us.
TEST(AnalyticGemm, RowsOfNoWholeLoadsHaveKernelsForAmpere) {
  const GpuPeaks h100 = Device("h100-sxm5-80gb");
  const KernelWork odd = Only(LinearOp{871, 1124, 431}, DType::kFloat32);
  const KernelWork even = Only(LinearOp{872, 1124, 432}, DType::kFloat32);
  const double us = AnalyticGemmUs(h100, Precision::kTensorFloat32, odd);
  EXPECT_GT(us, 1.4 * AnalyticGemmUs(h100, Precision::kTensorFloat32, even));
  EXPECT_NEAR(AnalyticGemmUs(h100, Precision::kTensorFloat32,
                             Only(LinearOp{2048, 1280, 1280}, DType::kFloat32)),
              27.8, 0.15 * 27.8);
}

}  // namespace
}  // namespace foretrace
