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
