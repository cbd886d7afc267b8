#include "simulator/workload/multi_branch.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "simulator/cost/operator/kernel_work.h"

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

// FLOP of products and attention are those of the shapes, but for biases and softmax.
TEST(MultiBranchTest, ClosedFormsAreThoseOfTheShapes) {
  for (const auto& w : {BuildMultiModalTransformer({}), BuildDlrm({}), BuildCandleUno({})}) {
    ASSERT_TRUE(w.ok());
    for (const Operator& op : w->operators) {
      ASSERT_FALSE(op.calls.empty()) << op.name;
      if (op.forward_flop == Flop()) continue;
      double shapes = 0;
      for (const OperatorCall& call : op.calls) shapes += TotalWork(call).flop.count();
      // Softmax adds 6 FLOP a score to the 8 h^2 s + 4 h s^2 of an attention operator.
      EXPECT_NEAR(shapes / op.forward_flop.count(), 1, 3.2e-3) << op.name;
    }
  }
}

}  // namespace
}  // namespace foretrace
