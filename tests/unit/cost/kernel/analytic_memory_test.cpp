#include "simulator/cost/kernel/analytic_memory.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace foretrace
