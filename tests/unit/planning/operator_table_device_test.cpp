#include "simulator/planning/serving/operator_table_device.h"

#include <gtest/gtest.h>

namespace foretrace {
namespace {

// 2 * 4096^3 FLOP in 0.2 ms are 687 TFLOP/s, which an H100 reaches and an A100 (312) does not.
constexpr char kFast[] = "gemm_dtype,m,n,k,latency_ms\nbfloat16,4096,4096,4096,0.2\n";

std::string Check(const std::string& file, const std::string& text, const std::string& device) {
  const auto catalog = AcceleratorCatalog::Load();
  EXPECT_TRUE(catalog.ok()) << catalog.status();
  return std::string(CheckTableDevice(file, text, *catalog, *catalog->Find(device)).message());
}

TEST(OperatorTableDevice, WhatATableSaysOfItsDevice) {
  EXPECT_EQ(Check("/data/gemm-h100.csv.xz", kFast, "h100-sxm5-80gb"), "");
  EXPECT_EQ(Check("h100_gemm_2.csv", kFast, "h200-sxm5"), "");  // one chip
  EXPECT_EQ(Check("gemm.csv", kFast, "h100-pcie-80gb"), "");
  EXPECT_NE(Check("gemm-a100.csv", kFast, "h100-sxm5-80gb").find("measured on a100"),
            std::string::npos);
  EXPECT_NE(Check("gemm.csv", kFast, "a100").find("gemm.csv:2: is a GEMM at 687 TFLOP/s"),
            std::string::npos);
  EXPECT_NE(
      Check("gemm.csv", std::string("# source: s\n") + kFast, "a100").find("gemm.csv:3: is a"),
      std::string::npos);
  const std::string stated = "device,isl\nNVIDIA H100 80GB HBM3,1\n";
  EXPECT_EQ(Check("t.csv", stated, "h100-sxm5-80gb"), "");
  EXPECT_NE(Check("t.csv", stated, "b200").find("t.csv:2: was measured on NVIDIA H100"),
            std::string::npos);
}

}  // namespace
}  // namespace foretrace
