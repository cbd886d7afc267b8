#include "simulator/cost/kernel/index_kernels.h"

#include <gtest/gtest.h>

#include <cmath>

namespace foretrace {
namespace {

// A device of 1,000 cycles a microsecond and 1 TB/s.
GpuPeaks Device() {
  GpuPeaks device;
  device.sms = 100;
  device.dram_gbps = 1000;
  device.fp32_tflops = 100 * 64 * 2 * 1e3 * 1e-6;  // 64 lanes, two FLOP each
  return device;
}

TEST(IndexKernels, AnIndexedWriteHasItsRowsAndPlaces) {
  // 351 indices of rows of 16 into 27 x 27 rows.
  const IndexedWrite write = IndexedWriteOf({351 * 16, 351, 27 * 27 * 16}, DType::kFloat32);
  EXPECT_EQ(write.indices, 351);
  EXPECT_EQ(write.places, 27 * 27);
  EXPECT_EQ(write.bytes, 4 * 351 * 16);
}

TEST(IndexKernels, ASortOfOneTileTakesAPassForSixBits) {
  const auto sort = [](int64_t places) {
    return *IndexedWriteUs(Device(), 1, {"void cub::DeviceRadixSortSingleTileKernel<Policy800>"},
                           {100, places, 400});
  };
  // 360 + 272 + 300 + 400 cycles a pass; 729 places have ten bits, 63 six.
  EXPECT_NEAR(sort(63), 1.332, 1e-9);
  EXPECT_NEAR(sort(729), 2 * 1.332, 1e-9);
}

TEST(IndexKernels, PlacesAreAddedToByWavesOrBytes) {
  constexpr std::string_view kName = "indexing_backward_kernel<float, 4>(long*, long*)";
  // Four trips of 700 cycles a wave, of which one load is every kernel's.
  EXPECT_NEAR(*IndexedWriteUs(Device(), 1, {kName, 500}, {351, 729, 22464}), 3 * 0.7, 1e-9);
  EXPECT_NEAR(*IndexedWriteUs(Device(), 1, {kName, 1500}, {351, 729, 22464}), 7 * 0.7, 1e-9);
  // 100 MB are read twice and written once, at half of the peak: 600 us.
  EXPECT_NEAR(*IndexedWriteUs(Device(), 0.5, {kName, 1500}, {351, 729, 100'000'000}), 600 - 0.7,
              1e-6);
}

TEST(IndexKernels, OthersAreNotAnswered) {
  EXPECT_FALSE(IndexedWriteUs(Device(), 1, {"volta_sgemm_128x64_nn"}, {351, 729, 100}));
  EXPECT_FALSE(IndexedWriteUs(Device(), 1, {"DeviceRadixSortOnesweepKernel"}, {0, 729, 100}));
}

// Trips are 700 cycles of a nanosecond each.
TEST(IndexKernels, GradientsOfAWholeTable) {
  const auto us = [](std::string_view name, uint32_t waves_milli, int64_t indices) {
    return *DenseGradientUs(Device(), 1, {name, waves_milli}, indices);
  };
  // 64 steps of 32 indices.
  EXPECT_NEAR(us("embedding_backward_feature_kernel<float, float, long>", 100, 2048),
              64 * 2.5 * 0.7, 1e-9);
  // 34.5 waves of 800 cycles and four trips; a wave at least.
  EXPECT_NEAR(us("compute_grad_weight<float, long>", 34500, 8192), 34.5 * 3.6, 1e-9);
  EXPECT_NEAR(us("sum_and_scatter<float, long>", 10, 8192), 3.6, 1e-9);
  // A pass over few keys takes 9,500 cycles, over a million 32 bytes each.
  EXPECT_NEAR(us("DeviceRadixSortOnesweepKernel<x>", 10, 8192), 9.5, 1e-9);
  EXPECT_NEAR(us("DeviceRadixSortOnesweepKernel<x>", 10, 1'000'000), 32, 1e-9);
  EXPECT_NEAR(us("DeviceRadixSortExclusiveSumKernel<x>", 10, 8192), 0.7, 1e-9);
  EXPECT_FALSE(DenseGradientUs(Device(), 1, {"volta_sgemm_128x64_nn"}, 8192));
}

// trace_diff/control: 999,424 bags and 15.8 million indices, 289 waves of blocks of 8 warps on an
// A100, each of four trips of 700 cycles of 1.41 GHz: 289 x 4 x 0.4965 = 574 us, beside 126 MB at
// 1,848 GB/s.
TEST(IndexKernels, BagsHaveAWarpEach) {
  const GpuPeaks a100 = *FindGpuPeaks("a100-sxm4-40gb");
  const Launch checked{"void bounds_check_indices_kernel<long>(x)", 289'000};
  const double memory_us = 126.4 / (a100.dram_gbps * 0.9) * 1e3;
  const auto us = WarpsOfBagsUs(a100, 0.9, checked, 126'400'000);
  ASSERT_TRUE(us.has_value());
  EXPECT_NEAR(*us, std::hypot(574, memory_us) - 0.4965, 1);
  // A fifth trip, and values that are written too.
  const Launch permuted{"void fbgemm_gpu::permute_indices_weights_kernel<false, int, x>", 289'000};
  EXPECT_NEAR(*WarpsOfBagsUs(a100, 0.9, permuted, 126'400'000),
              std::hypot(574 * 1.25, 2 * memory_us) - 0.4965, 1);
  EXPECT_FALSE(WarpsOfBagsUs(a100, 0.9, {"void permute_2D_lengths_kernel<int>", 1000}, 1));
  EXPECT_FALSE(WarpsOfBagsUs(a100, 0.9, {"void bounds_check_indices_kernel<long>(x)", 0}, 1));
}

}  // namespace
}  // namespace foretrace
