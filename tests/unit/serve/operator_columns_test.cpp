// Tables of operators of two sources, made comparable.
#include "simulator/serve/operator_columns.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "simulator/serve/operator_table.h"

namespace foretrace::serve {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(OperatorColumns, NothingIsAssumedOfTablesThatAgree) {
  const std::string table = "# source: x\ngemm_dtype,m,n,k,latency_ms\nbfloat16,1,2,3,4\n";
  const auto aligned = AlignOperators("a.csv", table, "b.csv", table);
  ASSERT_TRUE(aligned.ok()) << aligned.status();
  EXPECT_EQ(aligned->known, table);
  EXPECT_EQ(aligned->test, table);
  EXPECT_THAT(aligned->notes, IsEmpty());
}

// Columns that never varied are left out by those who publish tables: one without windows is of
// full attention, one without a cache's type has that of the arithmetic.
TEST(OperatorColumns, ColumnsThatOneLacks) {
  const auto aligned = AlignOperators(
      "a.csv",
      "attn_dtype,kv_cache_dtype,num_heads,num_key_value_heads,head_dim,window_size,batch_size,isl,"
      "latency_ms\nbfloat16,bfloat16,8,8,128,0,1,64,1\nbfloat16,fp8,8,8,128,128,1,64,1\n",
      "b.csv",
      "attn_dtype,num_heads,num_key_value_heads,head_dim,batch_size,isl,tp_size,latency_ms\n"
      "bf16,8,8,128,1,64,2,1.5\n");
  ASSERT_TRUE(aligned.ok()) << aligned.status();
  EXPECT_EQ(aligned->test,
            "attn_dtype,num_heads,num_key_value_heads,head_dim,batch_size,isl,latency_ms,"
            "kv_cache_dtype,window_size\nbfloat16,8,8,128,1,64,1.5,bfloat16,0\n");
  EXPECT_THAT(aligned->notes,
              ElementsAre("b.csv has no column kv_cache_dtype: taken as its attn_dtype",
                          "b.csv has no column window_size: taken as 0"));
  const auto errors = TestOperators("a.csv", aligned->known, "b.csv", aligned->test);
  ASSERT_TRUE(errors.ok()) << errors.status();
  EXPECT_NEAR(errors->front().median_percent, 100.0 / 3, 1e-9);
}

TEST(OperatorColumns, AColumnThatVariesIsAskedFor) {
  const auto aligned =
      AlignOperators("a.csv", "moe_dtype,num_tokens,topk,latency_ms\nx,1,2,3\nx,1,4,3\n", "b.csv",
                     "moe_dtype,num_tokens,latency_ms\nx,1,3\n");
  EXPECT_THAT(std::string(aligned.status().message()),
              HasSubstr("b.csv:1: has no column topk, which has 2 values in a.csv"));
  // The header follows the provenance.
  const auto third =
      AlignOperators("a.csv", "moe_dtype,num_tokens,topk,latency_ms\nx,1,2,3\nx,1,4,3\n", "b.csv",
                     "# device: H100\n# source: y\nmoe_dtype,num_tokens,latency_ms\nx,1,3\n");
  EXPECT_THAT(std::string(third.status().message()), HasSubstr("b.csv:3: has no column topk"));
}

TEST(OperatorColumns, TimesInAnotherUnit) {
  const auto aligned = AlignOperators("a.csv", "moe_dtype,num_tokens,latency_ms\nx,1,2\nx,2,3\n",
                                      "b.csv", "moe_dtype,num_tokens,latency_us\nx,1,3\n");
  EXPECT_THAT(std::string(aligned.status().message()),
              HasSubstr("b.csv:1: has no column latency_ms; write its times there"));
}

TEST(OperatorColumns, OtherFrameworksKernelsAndTypes) {
  const std::string header = "kernel_source,moe_dtype,num_tokens,latency_ms\n";
  const auto aligned =
      AlignOperators("a.csv",
                     header +
                         "torch,bfloat16,1,1\ntorch,bfloat16,2,1\nslow,bfloat16,1,1\n"
                         "torch_nongated,bfloat16,1,1\n",
                     "b.csv", header + "triton,float16,1,1\ntriton_nongated,float16,1,1\n");
  ASSERT_TRUE(aligned.ok()) << aligned.status();
  EXPECT_EQ(aligned->test, header + "torch,bfloat16,1,1\ntorch_nongated,bfloat16,1,1\n");
  EXPECT_EQ(aligned->notes.size(), 3u);
}

}  // namespace
}  // namespace foretrace::serve
