// Rows of one table of operators predicted from another's.
#include "simulator/serve/operator_table.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "simulator/serve/operator_rows.h"

namespace foretrace::serve {
namespace {

using testing::AllOf;
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
    ASSERT_TRUE(beyond.ok()) << beyond.status();
    EXPECT_EQ(beyond->front().held_out, 0u) << n;
  }
}

// Provenance before the header and another order of the columns change nothing.
TEST(OperatorTable, ReadsProvenanceAndAnyOrderOfColumns) {
  const auto errors = TestOperators("a.csv", "# source: made\n" + kKnown, "b.csv",
                                    "# source: made too\nlatency_ms,k,n,m,gemm_dtype\n"
                                    "2.5,1024,1024,16,bfloat16\n");
  ASSERT_TRUE(errors.ok()) << errors.status();
  EXPECT_NEAR(errors->front().median_percent, 20, 1e-9);
}

// A size that is no number counts as one that is not stated.
TEST(OperatorTable, SizesThatAreNoNumbers) {
  const auto rows = ReadOperatorRows("a.csv",
                                     "attn_dtype,kv_cache_dtype,num_heads,num_key_value_heads,"
                                     "head_dim,window_size,batch_size,isl,latency_ms\n"
                                     "bfloat16,bfloat16,8,8,nan,inf,1,64,0.01\n");
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_EQ(rows->rows.front().work.bytes, RealBytes());
  EXPECT_EQ(rows->rows.front().work.flop, Flop());
}

constexpr std::string_view kExperts =
    "kernel_source,moe_dtype,hidden_size,inter_size,num_experts,topk,moe_tp_size,moe_ep_size,"
    "distribution,num_tokens,latency_ms\n";

// Experts of 1,024 x 512 at 2 bytes: a rank reads 3 x 512 Ki weights of each of its experts, 3 MiB,
// at 3 GiB/ms, and takes 10 us besides. 256 experts over 1, 2, 4, 8, ... devices.
std::string ExpertRow(int devices, double slower = 1) {
  return fmt::format("cutlass,bfloat16,1024,512,256,8,1,{},balanced,4096,{}\n", devices,
                     slower * (0.010 + 256.0 / devices * 3 / (3 * 1024)));
}

// No row is of four devices: what two and eight take beyond their work says it, so that the floor,
// which is half of eight devices' time, does not bend the line.
TEST(OperatorTable, ExpertsOfAnotherDivisionLieBetweenDivisions) {
  std::string known(kExperts);
  for (const int devices : {1, 2, 8, 16, 64, 128}) known += ExpertRow(devices);
  const auto errors = TestOperators("a.csv", known, "b.csv", std::string(kExperts) + ExpertRow(4));
  ASSERT_TRUE(errors.ok()) << errors.status();
  EXPECT_EQ(errors->front().held_out, 1u);
  EXPECT_LT(errors->front().median_percent, 4);
}

// Tuning failed for eight devices by width alone, and made all of it six times as slow.
TEST(OperatorTable, OneLineThatIsFarSlowerIsNotTaken) {
  std::string known(kExperts);
  const auto row = [](int widths, int devices, double ms) {
    return fmt::format("cutlass,bfloat16,1024,512,256,8,{},{},balanced,4096,{}\n", widths, devices,
                       ms);
  };
  known += row(2, 2, 0.08) + row(2, 8, 0.02) + row(1, 4, 0.08) + row(4, 4, 0.12);
  const auto errors =
      TestOperators("a.csv", known, "b.csv", std::string(kExperts) + row(2, 4, 0.04));
  ASSERT_TRUE(errors.ok()) << errors.status();
  EXPECT_LT(errors->front().median_percent, 25);
}

// Weights of 256 experts stream by: at four thirds of the bandwidth what is not the floor takes
// three quarters. The floor, of 128 devices, is 12 us.
TEST(OperatorTable, AnotherDeviceHasOtherRates) {
  std::string known(kExperts);
  for (const int devices : {1, 2, 4, 8, 128}) known += ExpertRow(devices);
  const std::string there =
      std::string(kExperts) +
      fmt::format("cutlass,bfloat16,1024,512,256,8,1,1,balanced,4096,{}\n", 0.012 + 0.248 * 0.75);
  const auto same = TestOperators("a.csv", known, "b.csv", there);
  ASSERT_TRUE(same.ok()) << same.status();
  EXPECT_NEAR(same->front().median_percent, 100 * (0.26 / 0.198 - 1), 1);
  const auto errors = TestOperators("a.csv", known, "b.csv", there, {4.0 / 3, 4.0 / 3});
  ASSERT_TRUE(errors.ok()) << errors.status();
  EXPECT_LT(errors->front().median_percent, 3);
}

// GEMMs too: of 4,096 rows, which arithmetic bounds, twice its rate halves what is not the floor.
TEST(OperatorTable, GemmsAreScaledToo) {
  std::string known(kKnown);
  known += "bfloat16,1,1,1,0.01\n";
  const std::string there = "gemm_dtype,m,n,k,latency_ms\nbfloat16,16,2048,1024,2\n";
  const auto same = TestOperators("a.csv", known, "b.csv", there);
  ASSERT_TRUE(same.ok());
  EXPECT_NEAR(same->front().median_percent, 100, 1e-9);
  const auto errors = TestOperators("a.csv", known, "b.csv", there, {2, 2});
  ASSERT_TRUE(errors.ok());
  EXPECT_LT(errors->front().median_percent, 2);
}

// Experts whose table has no columns of their division are scaled as well.
TEST(OperatorTable, ExpertsWithoutDivisionAreScaled) {
  const std::string header =
      "moe_dtype,hidden_size,inter_size,num_experts,topk,num_tokens,latency_ms\n";
  const std::string known = header + "bfloat16,1024,512,8,2,1,0.01\nbfloat16,1024,512,8,2,4096,1\n";
  const auto errors =
      TestOperators("a.csv", known, "b.csv", header + "bfloat16,1024,512,8,2,4096,0.505\n", {2, 2});
  ASSERT_TRUE(errors.ok()) << errors.status();
  EXPECT_LT(errors->front().median_percent, 1);
}

// Arithmetic of narrow weights alone is in 16 bits.
TEST(OperatorTable, RatesOfPrecisions) {
  const OperatorScale scale{1, 2, 3, 4};
  EXPECT_EQ(scale.compute("bfloat16"), 2);
  EXPECT_EQ(scale.compute("w4a16_mxfp4"), 2);
  EXPECT_EQ(scale.compute("int8_wo"), 2);
  EXPECT_EQ(scale.compute("fp8_block"), 3);
  EXPECT_EQ(scale.compute("w4a8"), 3);
  EXPECT_EQ(scale.compute("nvfp4"), 4);
}

// The device is twice as slow as its file says, which two rows of it correct.
TEST(OperatorTable, FewRowsCorrectTheRest) {
  std::string known(kExperts), few(kExperts), test(kExperts);
  for (const int devices : {1, 2, 4, 8, 16, 64, 128}) known += ExpertRow(devices);
  few += ExpertRow(2, 2) + ExpertRow(16, 2);
  test += ExpertRow(1, 2) + ExpertRow(8, 2);
  const auto errors = TestOperators("a.csv", known, "b.csv", test, {}, {"few.csv", few});
  ASSERT_TRUE(errors.ok()) << errors.status();
  EXPECT_NEAR(errors->front().p90_percent, 0, 1e-9);
  const std::string unlike = std::string(kExperts) + "w,bfloat16,1,1,1,1,1,1,x,1,1\n";
  const auto none = TestOperators("a.csv", known, "b.csv", test, {}, {"few.csv", unlike});
  EXPECT_THAT(std::string(none.status().message()),
              AllOf(HasSubstr("few.csv: no row of these few is predicted from a.csv"),
                    HasSubstr("types ("), HasSubstr("columns are distribution,")));
}

// Of two precisions one cannot be said anything of: the other is judged, and the rest is told.
TEST(OperatorTable, TellsWhatIsNotPredicted) {
  const auto errors = TestOperators("a.csv", kKnown, "b.csv",
                                    "gemm_dtype,m,n,k,latency_ms\nbfloat16,16,1024,1024,2.5\n"
                                    "fp8,16,1024,1024,2.5\n");
  ASSERT_TRUE(errors.ok()) << errors.status();
  ASSERT_EQ(errors->size(), 2u);
  EXPECT_EQ((*errors)[1].held_out, 0u);
  const auto notes = OperatorNotes(*errors);
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_THAT(notes.front(), HasSubstr("fp8: 1 of 1 rows are not predicted"));
  const std::string json = OperatorJson("b.csv", *errors);
  EXPECT_THAT(json, HasSubstr("\"uncovered_count\": 1"));
  EXPECT_THAT(json, HasSubstr("\"median_percent\": null"));
}

// Of ten rows eight are fitted and one of the other two has no model.
TEST(OperatorTable, RowsThatAreFittedAreNotDue) {
  OperatorErrors gemms = SummarizeOperator("fp8", 10, {0.1});
  gemms.fitted = 8;
  gemms.by_kernels = true;
  EXPECT_THAT(OperatorNotes({gemms}),
              testing::ElementsAre("fp8: 8 of 10 rows fitted, not held out",
                                   "fp8: 1 of 10 rows are not predicted: no model of kernels is "
                                   "of theirs"));
  EXPECT_THAT(OperatorJson("t.csv", {gemms}), HasSubstr("\"uncovered_count\": 1"));
}

TEST(OperatorTable, HeadingSaysHowRowsWerePredicted) {
  const std::vector<OperatorErrors> errors = {SummarizeOperator("fp8", 1, {0.1})};
  EXPECT_THAT(OperatorText("t.csv", errors), HasSubstr("t.csv: each shape predicted from its "
                                                       "neighbours of other groups\n"));
  EXPECT_THAT(OperatorText("t.csv", errors, {"by luck, corrected by 2 rows of few.csv", true}),
              AllOf(HasSubstr("median error of tested shapes 10.00 %"),
                    HasSubstr("t.csv: by luck, corrected by 2 rows of few.csv\n"),
                    testing::Not(HasSubstr("held"))));
}

}  // namespace
}  // namespace foretrace::serve
