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
  EXPECT_EQ(DeviceOfTable("tables/gemm-a100.csv.xz"), "a100");
  EXPECT_EQ(DeviceOfTable("gemm-h100.csv"), "h100");
  EXPECT_EQ(DeviceOfTable("operators.csv"), "");
  EXPECT_EQ(DeviceOfTable("gemm-.csv"), "");
}

TEST(GemmTable, HoldsWeightMatricesOut) {
  const auto errors = HoldOutGemms("a100", "t.csv", Table(13, "bfloat16"), 0, {});
  ASSERT_TRUE(errors.ok()) << errors.status();
  ASSERT_EQ(errors->size(), 1u);
  EXPECT_EQ(errors->front().name, "bfloat16");
  EXPECT_EQ(errors->front().rows, 169u);
  // A fifth of 169, by a hash of (n, k).
  EXPECT_NEAR(static_cast<double>(errors->front().held_out), 34, 15);
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
  const auto errors = TestGemms("a100", "t.csv", Table(13, "bfloat16"), "u.csv", test, {});
  ASSERT_TRUE(errors.ok()) << errors.status();
  ASSERT_EQ(errors->size(), 1u);
  EXPECT_EQ(errors->front().held_out, 1u);
  EXPECT_LT(errors->front().median_percent, 5);
  // A precision that the table has not is left to lines, which say so.
  test += "fp8,1792,2304,4096,1\n";
  const auto other = TestGemms("a100", "t.csv", Table(13, "bfloat16"), "u.csv", test, {});
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_TRUE(other->empty());
}

TEST(GemmTable, LeavesToLinesWhatHasNoModel) {
  // Another table; too few matrices; a type that kernels are not calibrated for.
  for (const std::string& text :
       {std::string("num_heads,latency_ms\n8,1\n"), Table(11, "bfloat16"), Table(13, "int8_wo")}) {
    const auto errors = HoldOutGemms("a100", "t.csv", text, 0, {});
    ASSERT_TRUE(errors.ok()) << errors.status();
    EXPECT_TRUE(errors->empty());
  }
}

TEST(GemmTable, SaysWhereItIsWrong) {
  const std::string text = std::string(kHeader) + "bfloat16,512,512,0,1\n";
  EXPECT_EQ(HoldOutGemms("a100", "t.csv", text, 0, {}).status().message(),
            "t.csv:2: m '0' is no positive number");
  EXPECT_FALSE(HoldOutGemms("no-such-gpu", "t.csv", Table(13, "bfloat16"), 0, {}).ok());
}

}  // namespace
}  // namespace foretrace
