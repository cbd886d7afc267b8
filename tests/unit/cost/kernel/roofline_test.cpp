#include "simulator/cost/kernel/roofline.h"

#include <gtest/gtest.h>

#include "tests/unit/cost/kernel/work_on_a100.h"

namespace foretrace {
namespace {

TEST(Roofline, LargeGemmRunsAtItsEfficiency) {
  // 8192^3 on 108 SMs. Without an intensity penalty the smallest tile, 32x32, wastes least: 256 *
  // 256 = 65,536 blocks, 606.8 waves, so 607 rounds.
  const GemmParameters p{2, 0.9, 0, 0.8};
  const GemmTime t = GemmRoofline(p, A100(), Precision::kFloat32, Only(LinearOp{8192, 8192, 8192}));
  const double rounds = 607, tile_flop = 2.0 * 32 * 32 * 8192;
  EXPECT_NEAR(t.compute_us, rounds * tile_flop / (19.5e6 * 0.9 / 108), t.compute_us * 1e-9);
  EXPECT_EQ(t.split, 1);
}

TEST(Roofline, WaveQuantisation) {
  // One more row than fills the device costs a whole further wave: tiles of 32x32 (no intensity
  // penalty), k = 64 so that no split is tried. 432 * 8 = 3,456 blocks are 32 waves of 108, and
  // 433 * 8 = 3,464 need a 33rd.
  const GemmParameters p{0, 1, 0, 1};
  const auto us = [&](int64_t m) {
    return GemmRoofline(p, A100(), Precision::kFloat32, Only(LinearOp{m, 256, 64})).compute_us;
  };
  EXPECT_DOUBLE_EQ(us(108 * 128), us(108 * 128 - 1));
  EXPECT_DOUBLE_EQ(us(108 * 128 + 1), us(108 * 128) * 33 / 32);
}

// 108 * 128 rows by 256 columns are one wave of 128x256 tiles on 108 SMs, and whole waves of every
// other tile, which all take as long without an intensity penalty. One more row:
//   128x256: 2 waves of 1           128x128: 3 of 2         128x64, 64x128: 5 of 4
//   64x64: 9 of 8                   32x64: 17 of 16         32x32: 33 of 32
GemmTime OneRowMore(const GemmParameters& p, int64_t more) {
  return GemmRoofline(p, A100(), Precision::kFloat32, Only(LinearOp{108 * 128 + more, 256, 64}));
}

TEST(Roofline, APartialWaveTakesItsShare) {
  GemmParameters p{0, 1, 0, 1};
  const double full_us = OneRowMore(p, 0).compute_us;
  p.partial_wave = 1;  // 433 * 8 blocks of 32x32 instead of 432 * 8
  EXPECT_NEAR(OneRowMore(p, 1).compute_us, full_us * 433 / 432, full_us * 1e-9);
  p.partial_wave = 0.5;  // half way between that and a 33rd full wave
  EXPECT_NEAR(OneRowMore(p, 1).compute_us, full_us * 0.5 * (433.0 / 432 + 33.0 / 32),
              full_us * 1e-9);
}

TEST(Roofline, EveryWaveFillsItsPipeline) {
  GemmParameters p{0, 1, 0, 1};
  const double full_us = OneRowMore(p, 0).compute_us;
  p.wave_us = 0.75;  // of 128x128; all tiles cover twice that in one wave of 128x256
  EXPECT_NEAR(OneRowMore(p, 0).compute_us, full_us + 2 * 0.75, full_us * 1e-9);
}

TEST(Roofline, ChoiceOfTilesIsAveraged) {
  GemmParameters p{0, 1, 0, 1};
  const double full_us = OneRowMore(p, 0).compute_us;
  p.choice_spread = 0.1;
  EXPECT_NEAR(OneRowMore(p, 0).compute_us, full_us, full_us * 1e-9);  // all alike
  p.choice_spread = 1e9;                                              // all chosen as often
  const double mean = std::pow(2.0 * 3 / 2 * 5 / 4 * 5 / 4 * 9 / 8 * 17 / 16 * 33 / 32, 1.0 / 7);
  EXPECT_NEAR(OneRowMore(p, 1).compute_us, full_us * mean, full_us * 1e-6);
  p.choice_spread = 1e-3;  // hardly ever but the best
  EXPECT_NEAR(OneRowMore(p, 1).compute_us, full_us * 33 / 32, full_us * 1e-3);
}

TEST(Roofline, ComputeAndMemoryOverlapByAPower) {
  GemmParameters p{1, 0.9, 4, 0.8};
  p.overlap_power = 2;
  const GemmTime t = GemmRoofline(p, A100(), Precision::kFloat32, Only(LinearOp{4096, 64, 64}));
  EXPECT_NEAR(t.kernel_us, 1 + std::hypot(t.compute_us, t.memory_us), 1e-9);
}

TEST(Roofline, SmallOutputsSplitTheReduction) {
  const GemmParameters p{2, 0.9, 4, 0.8};
  const GemmTime t = GemmRoofline(p, A100(), Precision::kFloat32, Only(LinearOp{64, 64, 65536}));
  EXPECT_GT(t.split, 1);
}

TEST(Roofline, StreamsAtBandwidth) {
  // 1 GB read and written twice over at 0.9 of 1555 GB/s, plus 2 us.
  const MemoryParameters p{2, 0.9};
  const MemoryTime t = MemoryRoofline(p, A100(), Only(ElementwiseOp{125000000, 125000000}));
  EXPECT_NEAR(t.kernel_us, 2 + 1e9 / (1555e3 * 0.9), 1e-6);
}

TEST(Roofline, LaterPassesGoToDramWhenRowsOutgrowL2) {
  const MemoryParameters p{0, 1, 1.0, 0, 0, 0};
  const auto per_byte = [&](int64_t cols) {
    const KernelWork work = Only(LayerNormOp{1 << 16, cols});
    return MemoryRoofline(p, A100(), work).memory_us / static_cast<double>(work.total_bytes());
  };
  // 1,728 rows in flight: 1.8 MB at 256 columns (all hits), 113 MB at 16,384 (all misses), where
  // three passes over a row instead of two cost half as much again.
  EXPECT_NEAR(per_byte(16384) / per_byte(256), 1.5, 0.02);
}

TEST(Roofline, GradientsOfNormsHoldTwoTensorsInL2) {
  // 1,024 rows of 3,072 columns, all in flight: 12.6 MB of the 20 MB that a multiprocessor's L2
  // holds. A gradient goes over the inputs and the results' gradients, 25.2 MB: 1.26^6 / (1 +
  // 1.26^6) of the second pass misses.
  const MemoryParameters p{0, 1, 1.0, 0, 0, 0};
  const OperatorCall call{LayerNormOp{1024, 3072}, DType::kFloat32, Direction::kBackward};
  const KernelWork work = Kernels(call).front();
  const double missed =
      MemoryRoofline(p, A100(), work).memory_us * 1555e3 - static_cast<double>(work.total_bytes());
  const double f6 = std::pow(2.0 * 1024 * 3072 * 4 / (A100().l2_mbytes * 1e6), 6);
  EXPECT_NEAR(missed / static_cast<double>(work.read.count()), f6 / (1 + f6), 5e-3);
}

// 2^20 rows of 1,024 columns outgrow L2 too, but a warp has each in its registers: read once and
// written once, 8.6 GB over 1,555 GB/s.
TEST(Roofline, RowsInRegistersAreReadOnce) {
  const MemoryParameters p{0, 1, 0.1, 0, 0, 0};
  const MemoryTime t = MemoryRoofline(p, A100(), Only(SoftmaxOp{1 << 20, 1024}));
  EXPECT_NEAR(t.memory_us, 2.0 * 4 * 1024 * (1 << 20) / 1555e3, 1e-6);
}

TEST(SmoothMax, IsAMaximumWithARoundedCorner) {
  EXPECT_DOUBLE_EQ(SmoothMax(0, 0), 0);
  EXPECT_NEAR(SmoothMax(10, 1), 10, 1e-6);
  EXPECT_NEAR(SmoothMax(5, 5), 5 * std::pow(2, 0.125), 1e-12);
}

// Times that follow the model exactly, with overhead on top.

TEST(Roofline, AStepOfTheReductionTakesItsTime) {
  // 32 x 32 results over 200, too few for two parts: one block, whose 25 steps of 8 take 0.2 us
  // each. At the peak of one SM they would take 2 * 32 * 32 * 200 / (19.5e6 / 108) = 2.3 us.
  GemmParameters p{0, 1, 0, 1};
  const KernelWork work = Only(LinearOp{32, 32, 200});
  EXPECT_LT(GemmRoofline(p, A100(), Precision::kFloat32, work).compute_us, 2.4);
  p.reduction_step_us = 0.2;
  EXPECT_DOUBLE_EQ(GemmRoofline(p, A100(), Precision::kFloat32, work).compute_us, 5);
  // Tiles that keep an SM busy for longer than a step takes do not notice.
  const KernelWork large = Only(LinearOp{8192, 8192, 8192});
  const double with = GemmRoofline(p, A100(), Precision::kFloat32, large).compute_us;
  p.reduction_step_us = 0;
  EXPECT_EQ(GemmRoofline(p, A100(), Precision::kFloat32, large).compute_us, with);
}

// On tensor cores a step takes 16 bytes of the reduction: 8 elements in bf16, 4 of TF32, 16 of 8
// bits. 400 of them are 50, 100 and 25 steps of 1 us.
TEST(Roofline, AStepOnTensorCoresIsOfBytes) {
  GemmParameters p{0, 1, 0, 1};
  p.reduction_step_us = 1;
  const GpuPeaks h100 = *FindGpuPeaks("h100-sxm5-80gb");
  const auto us = [&](Precision precision, DType dtype) {
    return GemmRoofline(p, h100, precision, Only(LinearOp{32, 32, 400}, dtype)).compute_us;
  };
  EXPECT_DOUBLE_EQ(us(Precision::kHalf, DType::kBFloat16), 50);
  EXPECT_DOUBLE_EQ(us(Precision::kTensorFloat32, DType::kFloat32), 100);
  EXPECT_DOUBLE_EQ(us(Precision::kFloat8, DType::kFloat8), 25);
}

TEST(Roofline, VectorsFillNoTiles) {
  // 1,024 matrices of 32 x 32 times vectors, from either side: 2 * 1024^2 FLOP at the peak; a tile
  // of 32 x 32 would take 32 times as long.
  const GemmParameters p{0, 1, 0, 1};
  for (const BatchedMatmulOp& op : {BatchedMatmulOp{1024, 32, 1, 32}, {1024, 1, 32, 32}}) {
    const GemmTime t = GemmRoofline(p, A100(), Precision::kFloat32, Only(op));
    EXPECT_NEAR(t.compute_us, 2.0 * 1024 * 1024 / 19.5e6, 1e-9);
    EXPECT_GT(t.memory_us, t.compute_us);
  }
}

TEST(Roofline, NarrowAccessesKeepTensorCoresWaiting) {
  // Tiles of 128 x 128 load 256 elements a step of k each and store 128 x 128. One tile, k = 8,192:
  // 2,097,152 + 16,384 elements. On 108 * 64 * 1,410 integer instructions a microsecond.
  const GemmParameters p{0, 1, 20, 1};
  KernelWork work = Only(LinearOp{128, 128, 8192}, DType::kFloat16);
  const auto us = [&] { return GemmRoofline(p, A100(), Precision::kHalf, work).compute_us; };
  const double aligned = us(), rate = 108 * 64 * 1410.0, elements = 2097152 + 16384;
  // Two bytes at a time go through registers: 16 instructions. Four, 8 for two elements.
  work.load_elements = 1;
  EXPECT_NEAR(us() - aligned, 16 * elements / rate, 1e-6);
  work.load_elements = 2;
  EXPECT_NEAR(us() - aligned, 8 * elements / 2 / rate, 1e-6);
  work.load_elements = 8;
  EXPECT_EQ(us(), aligned);
  // Without a kernel's name the sizes tell: 8,191 is odd.
  work = Only(LinearOp{128, 128, 8191}, DType::kFloat16);
  EXPECT_NEAR(us() - aligned, 16 * (elements - 256) / rate, 0.01 * aligned);
  // Saturated sizes are as aligned as loads can be.
  work = Only(LinearOp{1, int64_t{1} << 62, int64_t{1} << 62}, DType::kFloat16);
  EXPECT_GT(us(), 0);
  // Single precision does not wait for its loads.
  work = Only(LinearOp{1024, 1024, 1023});
  const double single = GemmRoofline(p, A100(), Precision::kFloat32, work).compute_us;
  work.load_elements = 4;
  EXPECT_EQ(GemmRoofline(p, A100(), Precision::kFloat32, work).compute_us, single);
}

}  // namespace
}  // namespace foretrace
