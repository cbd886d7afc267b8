#include "simulator/planning/calibration/gemm_table.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace foretrace {
namespace {

constexpr std::string_view kHeader = "gemm_dtype,n,k,m,latency_ms\n";

// `side` x `side` weight matrices of one number of rows, a constant rate and a start-up.
std::string Table(int side, std::string_view precision) {
  std::string text(kHeader);
  for (int n = 1; n <= side; ++n) {
    for (int k = 1; k <= side; ++k) {
      const double us = 5 + 2.0 * 4096 * (512 * n) * (512 * k) / 200e6;
      text += fmt::format("{},{},{},4096,{}\n", precision, 512 * n, 512 * k, us / 1e3);
    }
  }
  return text;
}

TEST(GemmTable, NamesItsDevice) {
  EXPECT_EQ(DeviceOfTable("tables/gemm-a100.csv.xz", ""), "a100");
  EXPECT_EQ(DeviceOfTable("gemm-h100.csv", ""), "h100");
  EXPECT_EQ(DeviceOfTable("operators.csv", ""), "");
  EXPECT_EQ(DeviceOfTable("gemm-.csv", ""), "");
  EXPECT_EQ(DeviceOfTable("moe_h200_sxm.csv.gz", ""), "h200-sxm");
  EXPECT_EQ(DeviceOfTable("aiconfigurator-h200-sxm5-nvswitch-moe.csv", ""),
            "h200-sxm5-nvswitch-moe");
  EXPECT_EQ(DeviceOfTable("t.csv", "# source: x\n# device: H200\ngemm_dtype\n"), "H200");
  EXPECT_EQ(DeviceOfTable("t-a100.csv", "# device: a sofa\ngemm_dtype\n"), "a100");
  EXPECT_EQ(StatedDevice("# device: H200\ngemm_dtype\n"), "H200");
  EXPECT_EQ(StatedDevice("gemm_dtype\n"), "");
}

TEST(GemmTable, HoldsWeightMatricesOut) {
  const auto errors = HoldOutGemms("a100", "t.csv", Table(13, "bfloat16"), 0, {});
  ASSERT_TRUE(errors.ok()) << errors.status();
  ASSERT_EQ(errors->size(), 1u);
  EXPECT_EQ(errors->front().name, "bfloat16");
  EXPECT_EQ(errors->front().rows, 169u);
  // A fifth of 169, by a hash of (n, k).
  EXPECT_NEAR(static_cast<double>(errors->front().held_out), 34, 15);
  EXPECT_EQ(errors->front().fitted + errors->front().held_out, 169u);
  EXPECT_TRUE(errors->front().by_kernels);
  EXPECT_LT(errors->front().median_percent, 5);
}

TEST(GemmTable, HoldsEachMatrixOutOnce) {
  const auto errors = HoldOutGemms("a100", "t.csv", Table(13, "bfloat16"), 4, {});
  ASSERT_TRUE(errors.ok()) << errors.status();
  ASSERT_EQ(errors->size(), 1u);
  EXPECT_EQ(errors->front().held_out, 169u);
  EXPECT_LT(errors->front().median_percent, 5);
}

TEST(GemmTable, PredictsTheRowsOfAnother) {
  std::string test(kHeader);
  const double us = 5 + 2.0 * 4096 * 1792 * 2304 / 200e6;  // between the table's widths
  test += fmt::format("bfloat16,1792,2304,4096,{}\n", us / 1e3);
  const auto errors = TestGemms("a100", "t.csv", Table(13, "bfloat16"), "", "u.csv", test, {}, {});
  ASSERT_TRUE(errors.ok()) << errors.status();
  ASSERT_EQ(errors->size(), 1u);
  EXPECT_EQ(errors->front().held_out, 1u);
  EXPECT_LT(errors->front().median_percent, 5);
  // A precision that the table has not is left to lines, which say so.
  test += "fp8,1792,2304,4096,1\n";
  const auto other = TestGemms("a100", "t.csv", Table(13, "bfloat16"), "", "u.csv", test, {}, {});
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_TRUE(other->empty());
}

// An H200 has the H100's arithmetic and 4.8 of its 3.35 TB/s: skinny GEMMs that read 32 MiB of
// weights and more, beside which a block's steps are short, take 0.7 of their time there, and
// shapes that were measured as many times what they took.
TEST(GemmTable, SmallTablesOfASiblingGoByItsFile) {
  std::string known(kHeader), there(kHeader), own(kHeader);
  for (int i = 1; i <= 6; ++i) {
    const int n = 4096 * i, k = 4096;
    const double bytes = 2.0 * (n * k + 8 * n + 8 * k);
    known += fmt::format("bfloat16,{},{},8,{}\n", n, k, (2e-3 + bytes / 2.8e9));
    there += fmt::format("bfloat16,{},{},8,{}\n", n, k, (2e-3 + bytes / 2.8e9 * 3.35 / 4.8));
    own += fmt::format("bfloat16,{},{},8,{}\n", n, k, (2e-3 + bytes / 2.8e9));
  }
  const auto sibling = TestGemms("h100", "a.csv", known, "h200", "b.csv", there, {}, {});
  ASSERT_TRUE(sibling.ok()) << sibling.status();
  ASSERT_EQ(sibling->size(), 1u);
  EXPECT_EQ(sibling->front().held_out, 6u);
  EXPECT_LT(sibling->front().p90_percent, 5);
  const auto same = TestGemms("h100", "a.csv", known, "h100", "b.csv", own, {}, {});
  ASSERT_TRUE(same.ok()) << same.status();
  EXPECT_NEAR(same->front().p90_percent, 0, 1e-9);
  // Another chip, a quarter slower than its file says: ten rows of it say so.
  std::string few(kHeader), slower(kHeader);
  for (int i = 1; i <= 10; ++i) {
    const int n = 3072 * i, k = 4096;
    const double ms = 1.25 * (2e-3 + 2.0 * (n * k + 8 * n + 8 * k) / 2.8e9 * 3.35 / 2.039);
    (i % 2 == 0 ? few : slower) += fmt::format("bfloat16,{},{},8,{}\n", n, k, ms);
  }
  const auto corrected =
      TestGemms("h100", "a.csv", known, "a100", "b.csv", slower, {"few.csv", few}, {});
  ASSERT_TRUE(corrected.ok()) << corrected.status();
  EXPECT_LT(corrected->front().p90_percent, 6);
}

TEST(GemmTable, LeavesToLinesWhatHasNoModel) {
  // Another table; too few matrices; a type that kernels are not calibrated for.
  for (const std::string& text :
       {std::string("num_heads,latency_ms\n8,1\n"), Table(3, "bfloat16"), Table(13, "int8_wo")}) {
    const auto errors = HoldOutGemms("a100", "t.csv", text, 0, {});
    ASSERT_TRUE(errors.ok()) << errors.status();
    EXPECT_TRUE(errors->empty());
  }
}

TEST(GemmTable, SaysWhereItIsWrong) {
  const std::string text = std::string(kHeader) + "bfloat16,512,512,0,1\n";
  EXPECT_EQ(HoldOutGemms("a100", "t.csv", text, 0, {}).status().message(),
            "t.csv:2: m '0' is no positive number");
  // A thousandth of what they take, on the first row of its file.
  std::string fast = std::string(kHeader) + "bfloat16,8192,8192,4096,0.001\n";
  for (int k = 1; k <= 5; ++k) fast += fmt::format("bfloat16,512,{},4096,0.1\n", 512 * k);
  const auto wrong = TestGemms("a100", "t.csv", fast, "a100", "u.csv", fast, {}, {});
  const std::string said(wrong.status().message());
  EXPECT_TRUE(said.starts_with("t.csv: line 2: ")) << said;
  EXPECT_NE(said.find("latency_ms"), std::string::npos) << said;
  EXPECT_EQ(said.find("time_us"), std::string::npos) << said;
  EXPECT_FALSE(HoldOutGemms("no-such-gpu", "t.csv", Table(13, "bfloat16"), 0, {}).ok());
}

}  // namespace
}  // namespace foretrace
