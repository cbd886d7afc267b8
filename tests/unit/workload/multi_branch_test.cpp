#include "simulator/workload/multi_branch.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace foretrace {
namespace {

// Appendix 3.10.3: four branches of eight layers, hidden 1024, feed-forward 4096. One layer has
// 4 h^2 + 4 h (attention), h f + f and f h + h (feed-forward) parameters.
TEST(MultiBranchTest, Mmt) {
  const auto w = BuildMultiModalTransformer({});
  ASSERT_TRUE(w.ok() && w->Validate().ok());
  EXPECT_EQ(w->operators.size(), 4u * 8 * 3 + 1);
  const int64_t h = 1024, f = 4096;
  EXPECT_EQ(w->ParameterCount(), 32 * (4 * h * h + 4 * h + 2 * h * f + f + h));
  EXPECT_EQ(w->edges.size(), 4u * 23 + 4);
}

// Seven dense branches of four 4096-wide layers, seven tables of one million rows of 64; the
// concatenation is 7 * 4096 + 7 * 100 * 64 = 73,472 wide.
TEST(MultiBranchTest, Dlrm) {
  const auto w = BuildDlrm({});
  ASSERT_TRUE(w.ok() && w->Validate().ok());
  const int64_t dense = 4096 * 4096 + 4096;
  EXPECT_EQ(w->ParameterCount(), 28 * dense + 7 * 64'000'000 + 73472 * 4096 + 4096 + 3 * dense);
  const auto concat = std::find_if(w->operators.begin(), w->operators.end(),
                                   [](const auto& op) { return op.kind == OperatorKind::kConcat; });
  ASSERT_NE(concat, w->operators.end());
  EXPECT_EQ(concat->output_bytes, Bytes(4 * 73472));
}

TEST(MultiBranchTest, CandleUnoAndCaseStudy) {
  const auto uno = BuildCandleUno({});
  ASSERT_TRUE(uno.ok() && uno->Validate().ok());
  EXPECT_EQ(uno->operators.size(), 7u * 4 + 1);
  const auto two = BuildTwoBranchCaseStudy();
  ASSERT_TRUE(two.ok() && two->Validate().ok());
  EXPECT_EQ(two->operators.size(), 2u * 4 * 3 + 1);
}

TEST(MultiBranchTest, BadSizes) {
  CandleUnoConfig c;
  c.branches = 0;
  EXPECT_FALSE(BuildCandleUno(c).ok());
  DlrmConfig d;
  d.rows = int64_t{1} << 60;
  EXPECT_FALSE(BuildDlrm(d).ok());
}

// By hand, a multiply-add as two: s tokens by four h x h GEMMs, scores and sums of values
// 2 s^2 h each; a branch's dense layers 2 w^2 a row.
TEST(MultiBranchTest, FlopByHand) {
  const auto mmt = BuildMultiModalTransformer({});
  ASSERT_TRUE(mmt.ok());
  const double h = 1024, f = 4096, s = static_cast<double>(mmt->sequence_length);
  EXPECT_DOUBLE_EQ(mmt->ForwardFlop().count(),
                   32 * (8 * s * h * h + 4 * s * s * h + 4 * s * h * f));
  const auto uno = BuildCandleUno({});
  ASSERT_TRUE(uno.ok());
  EXPECT_DOUBLE_EQ(uno->ForwardFlop().count(), 7 * 4 * 2.0 * 4096 * 4096);
}

// A dense layer of 32-bit elements reads its input and writes its result, and
// nothing of its weights, which are not of a sample.
TEST(MultiBranchTest, TrafficOfActivationsAlone) {
  const auto mmt = BuildMultiModalTransformer({});
  ASSERT_TRUE(mmt.ok());
  const Operator& up = mmt->operators[1];
  EXPECT_EQ(up.forward_bytes.count(), mmt->sequence_length * (1024 + 4096) * 4);
}

}  // namespace
}  // namespace foretrace
