#include "simulator/workload/scaled_calls.h"

#include <gtest/gtest.h>

#include <variant>

namespace foretrace {
namespace {

// From 4 samples to 6: rows of GEMMs must come out whole, elements are rounded up.
TEST(ScaledCalls, ScaleTheirBatchDimension) {
  OperatorCall gemm{LinearOp{8, 16, 32}, DType::kFloat16};
  ASSERT_TRUE(ScaleSamples(4, 6, gemm));
  EXPECT_EQ(std::get<LinearOp>(gemm.shape).m, 12);
  EXPECT_EQ(std::get<LinearOp>(gemm.shape).n, 16);
  OperatorCall odd{LinearOp{3, 16, 32}, DType::kFloat16};
  EXPECT_FALSE(ScaleSamples(4, 6, odd));
  OperatorCall sums{ElementwiseOp{3, 6}, DType::kFloat16};
  ASSERT_TRUE(ScaleSamples(4, 6, sums));
  EXPECT_EQ(std::get<ElementwiseOp>(sums.shape).elements, 5);
  EXPECT_EQ(std::get<ElementwiseOp>(sums.shape).read_elements, 9);
  OperatorCall heads{AttentionOp(), DType::kFloat16};
  std::get<AttentionOp>(heads.shape).b = 2;
  ASSERT_TRUE(ScaleSamples(4, 6, heads));
  EXPECT_EQ(std::get<AttentionOp>(heads.shape).b, 3);
}

}  // namespace
}  // namespace foretrace
