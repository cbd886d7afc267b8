#include "simulator/cost/kernel/analytic_memory.h"

#include <gtest/gtest.h>

#include "simulator/cost/kernel/vector_rates.h"

namespace foretrace {
namespace {

TEST(AnalyticMemory, WhatOnlyWritesReachesMoreOfTheDram) {
  GpuPeaks device;
  device.dram_gbps = 1000;
  device.l2_mbytes = 40;
  MemoryParameters streaming;
  streaming.base_us = 0;
  streaming.bandwidth_efficiency = 0.8;
  KernelWork fill;
  fill.kind = KernelKind::kFill;
  fill.written = Bytes(93'000'000);
  EXPECT_DOUBLE_EQ(AnalyticMemoryUs(streaming, device, fill), 100);
  fill.written = Bytes(8'000'000);  // the cache holds it
  EXPECT_DOUBLE_EQ(AnalyticMemoryUs(streaming, device, fill), 10);
  KernelWork copy;
  copy.kind = KernelKind::kCopy;
  copy.read = copy.written = Bytes(40'000'000);
  EXPECT_DOUBLE_EQ(AnalyticMemoryUs(streaming, device, copy), 100);
  copy.bandwidth_share = 0.5;  // blocks in places apart
  EXPECT_DOUBLE_EQ(AnalyticMemoryUs(streaming, device, copy), 200);
}

// Tensors in one piece cost nothing but the start, others 0.33 each beyond the first.
TEST(AnalyticMemory, PiecesOfAConcatenationAreLookedUp) {
  GpuPeaks device;
  device.dram_gbps = 1000;
  device.l2_mbytes = 40;
  KernelWork work = Kernels({ConcatOp{1'000'000, 8}, DType::kFloat32, Direction::kForward})[0];
  EXPECT_DOUBLE_EQ(AnalyticMemoryUs({1, 1}, device, work), 1 + 8 + 0.7);
  work.parts = 8;
  EXPECT_DOUBLE_EQ(AnalyticMemoryUs({1, 1}, device, work), 1 + 8 + 0.7 + 7 * 0.33);
}

// An activation's input of 10 MB is half of an A100's partition: 20 MB at 21 bytes a cycle and
// multiprocessor, 20e6 / (21 x 108 x 1,410) = 6.25 us. One of 20 MB is half gone; nothing is left
// of one of 24 MB. Kernels that divide for each element, and those that compute, are as before.
TEST(AnalyticMemory, TheCacheStillHasAnActivationsInput) {
  const GpuPeaks device = *FindGpuPeaks("a100-pcie-40gb");
  const auto us = [&](double mbytes, double flop_per_element, double instructions) {
    const auto elements = static_cast<int64_t>(mbytes * 1e6 / 4);
    ElementwiseOp op{elements, elements};
    op.flop_per_element = flop_per_element;
    KernelWork work = Kernels({op, DType::kFloat32, Direction::kForward})[0];
    work.instructions = instructions;
    return WithCachedInputUs(device, work, 100);
  };
  const double cached = 20e6 / (21 * 108 * 1410.0);
  EXPECT_NEAR(us(10, 1, 0), cached, 1e-3);
  EXPECT_NEAR(us(20, 1, 0), (2 * cached + 100) / 2, 1e-3);
  EXPECT_EQ(us(24, 1, 0), 100);
  EXPECT_EQ(us(10, 16, 0), 100);
  EXPECT_EQ(us(10, 1, 1e6), 100);
}

// Elements that lie in sectors of their own take these instead of their bytes.
TEST(AnalyticMemory, ScatteredTensorsAreConcatenatedBySectors) {
  GpuPeaks device;
  device.dram_gbps = 1000;
  device.l2_mbytes = 40;
  device.sms = 100;
  device.fp32_tflops = 10;
  KernelWork work = Kernels({ConcatOp{1'000'000, 2}, DType::kFloat32, Direction::kForward})[0];
  work.scattered = 1'000'000;
  EXPECT_GT(ScatteredUs(device, work.scattered), 8);
  EXPECT_DOUBLE_EQ(AnalyticMemoryUs({1, 1}, device, work),
                   1 + ScatteredUs(device, work.scattered) + 0.7);
}

}  // namespace
}  // namespace foretrace
