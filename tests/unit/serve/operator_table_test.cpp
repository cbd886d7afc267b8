// Rows of one table of operators predicted from another's.
#include "simulator/serve/operator_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace foretrace::serve {
namespace {

using testing::HasSubstr;

const std::string kKnown =
    "gemm_dtype,m,n,k,latency_ms\n"
    "bfloat16,16,512,1024,1\n"
    "bfloat16,16,2048,1024,4\n";

// Half way between 512 and 2,048, in the logarithm, a GEMM takes half way between 1 and 4 ms: 2.
TEST(OperatorTable, ShapesThatTheTableLacksLieBetweenItsOwn) {
  const auto errors = TestOperators("a.csv", kKnown, "b.csv",
                                    "gemm_dtype,m,n,k,latency_ms\nbfloat16,16,1024,1024,2.5\n");
  ASSERT_TRUE(errors.ok()) << errors.status();
  ASSERT_EQ(errors->size(), 1u);
  EXPECT_EQ(errors->front().held_out, 1u);
  EXPECT_NEAR(errors->front().median_percent, 20, 1e-9);
}

// The table's own shape counts as it was measured; what lies beyond all is not invented.
TEST(OperatorTable, OwnShapesAreExactAndNoneIsExtrapolated) {
  const auto own = TestOperators("a.csv", kKnown, "b.csv",
                                 "gemm_dtype,m,n,k,latency_ms\nbfloat16,16,2048,1024,5\n");
  ASSERT_TRUE(own.ok()) << own.status();
  EXPECT_NEAR(own->front().median_percent, 20, 1e-9);
  for (const char* n : {"256", "4096"}) {
    const auto beyond =
        TestOperators("a.csv", kKnown, "b.csv",
                      std::string("gemm_dtype,m,n,k,latency_ms\nbfloat16,16,") + n + ",1024,1\n");
    EXPECT_THAT(std::string(beyond.status().message()), HasSubstr("lies between others")) << n;
  }
}

}  // namespace
}  // namespace foretrace::serve
