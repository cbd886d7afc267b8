#include "simulator/cost/traced/call_pairs.h"

#include <gtest/gtest.h>

namespace foretrace {
namespace {

TracedOperator Convolution(Direction pass, int64_t oh, bool assumed) {
  Conv2dOp op{32, 512, 28, 28, 1024, 1, 1, oh, oh};
  return {{op, DType::kFloat32, pass}, assumed};
}

TEST(CallPairs, AConvolutionTakesItsOutputFromItsGradient) {
  TracedCalls calls;
  calls[3] = Convolution(Direction::kForward, 28, true);
  calls[9] = Convolution(Direction::kBackward, 14, false);
  CompletePairs(calls);
  EXPECT_EQ(std::get<Conv2dOp>(calls[3]->op.shape).oh, 14);
  EXPECT_FALSE(calls[3]->assumed);
}

TEST(CallPairs, AConvolutionWithoutAPartnerStaysAssumed) {
  TracedCalls calls;
  calls[3] = Convolution(Direction::kForward, 28, true);
  calls[9] = TracedOperator{
      {Conv2dOp{32, 512, 28, 28, 1024, 3, 3, 14, 14}, DType::kFloat32, Direction::kBackward},
      false};
  CompletePairs(calls);
  EXPECT_EQ(std::get<Conv2dOp>(calls[3]->op.shape).oh, 28);
  EXPECT_TRUE(calls[3]->assumed);
}

TracedOperator Lookup(int64_t tables, int64_t batch, int64_t lookups, int64_t elements) {
  EmbeddingOp op;
  op.tables = tables;
  op.bags = tables * batch;
  op.lookups = lookups;
  op.rows = elements;
  return {{op, DType::kFloat32, Direction::kForward}, true};
}

TracedOperator Gradient(int64_t batch, int64_t total_dim) {
  EmbeddingOp op;
  op.tables = 0;
  op.bags = batch;
  op.dim = total_dim;
  return {{op, DType::kFloat32, Direction::kBackward}, true};
}

// Two lookups of one batch: the later one's backward pass comes first. 3 tables of dimension
// 48 / 3 = 16 and 2 of 64 / 2 = 32.
TEST(CallPairs, LookupsPairUpLastInFirstOut) {
  TracedCalls calls;
  calls[1] = Lookup(3, 128, 2304, 16 * 300);
  calls[2] = Lookup(2, 128, 1000, 32 * 200);
  calls[5] = Gradient(128, 64);
  calls[6] = Gradient(128, 48);
  CompletePairs(calls);
  const auto op = [&calls](uint32_t call) { return std::get<EmbeddingOp>(calls[call]->op.shape); };
  EXPECT_EQ(op(1).dim, 16);
  EXPECT_EQ(op(1).rows, 300);
  EXPECT_EQ(op(2).dim, 32);
  EXPECT_EQ(op(5).lookups, 1000);
  EXPECT_EQ(op(5).tables, 2);
  EXPECT_EQ(op(5).bags, 256);
  EXPECT_EQ(op(6).lookups, 2304);
  EXPECT_EQ(op(6).dim, 16);
  // 768 lookups of 100 rows a table touch all but 100 exp(-7.68) = 0.05 of them.
  EXPECT_EQ(op(6).unique_rows, 300);
}

TEST(CallPairs, LookupsWithoutAPartnerAreDropped) {
  TracedCalls calls;
  calls[1] = Lookup(3, 128, 2304, 16 * 300);
  calls[6] = Gradient(64, 48);  // another batch
  CompletePairs(calls);
  EXPECT_FALSE(calls[1].has_value());
  EXPECT_FALSE(calls[6].has_value());
}

}  // namespace
}  // namespace foretrace
