// Tables as people write them, and what of their software exchanges of experts follow from.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "simulator/mapping/training_rows.h"
#include "tests/unit/mapping/known_rows.h"

namespace foretrace {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// As spreadsheets and people write tables: columns without which there is a default are missing,
// names of columns and words in other cases, numbers with ".0" or thousands separators, units.
TEST(TrainingRowsTest, OddTables) {
  const std::string path = testing::TempDir() + "/odd.csv";
  std::ofstream(path) << "\xEF\xBB\xBFModel, GPUs,gpu,TP,PP,vp,micro_batch,global_batch,precision,"
                         "framework,recompute,oom,step_s,memory_GB,mapping,vocab\n"
                         "known, 16 ,H100,2.0,4.0,0,1.0,16.0,,NeMo,n/a,0.0,1.5 s,NaN,ZERO1 Full,"
                         "\"128,256\"\n"
                         "known,16,H100,2,,nan,-,16,BF16,NeMo,None,False,1500 ms,60,N/A,\n"
                         "known,16,,2,,,1,16,BF16,NeMo,,0,1,,,\n"
                         "known,16.5,H100,2,,,1,16,BF16,NeMo,,0,1,,,\n"
                         "known,16,H100,2,,,1,16,BF16,NeMo,,true,,,,\n"
                         "known,16,H100,2,,,1,16,BF16,NeMo,,0,3 min,,,\n";
  ASSERT_TRUE(IsTrainingTable(path));
  const auto rows = LoadTrainingRows(path, KnownModel, Stacks());
  ASSERT_TRUE(rows.ok()) << rows.status();
  ASSERT_EQ(rows->size(), 6u);
  const TrainingRow &first = (*rows)[0], &second = (*rows)[1];
  EXPECT_EQ(first.refused, "");
  EXPECT_EQ(ToString(first.mapping), "tp2 pp4 dp2 mb1 v1 full sp zero1 overlap tp-chunked grad16");
  EXPECT_EQ(first.config.vocabulary, 128256);
  EXPECT_EQ(first.config.dtype, DType::kFloat16);
  EXPECT_THAT(first.notes, ElementsAre(HasSubstr("precision float16")));
  EXPECT_EQ(first.measured, SimTime::FromSeconds(1.5));
  EXPECT_FALSE(first.memory_gib);
  EXPECT_EQ(second.refused, "");
  EXPECT_EQ(ToString(second.mapping), "tp2 pp1 dp8 mb1 v1 none sp overlap tp-chunked grad16");
  EXPECT_EQ(second.measured, SimTime::FromSeconds(1.5));
  EXPECT_EQ(second.memory_gib, 60);
  EXPECT_THAT((*rows)[2].refused, HasSubstr("gpu is not stated"));
  EXPECT_THAT((*rows)[3].refused, HasSubstr("gpus '16.5'"));
  EXPECT_TRUE((*rows)[4].out_of_memory);
  EXPECT_THAT((*rows)[5].refused, HasSubstr("step_s '3 min'"));
}

// How tokens go to experts is the software's where experts are divided; in 8 bits where
// GEMMs are; and whole layers are not recomputed whose parts hide what experts exchange.
TEST(TrainingRowsTest, DispatchIsTheSoftwares) {
  std::vector<SoftwareStack> stacks = Stacks();
  StackRelease& release = stacks[0].releases[0];
  release.dispatch = ExpertDispatch::kDeepEp;
  release.dispatch_fp8 = release.overlap_experts = true;
  std::string header = kHeader;
  header.insert(header.size() - 1, ",mapping,overlap");
  const std::string path = testing::TempDir() + "/dispatch.csv";
  std::ofstream(path) << header
                      << "experts,,,,,,,,16,H100,8,1,1,16,1,,16,1,,32,FP8,none,,NeMo,0,1,,,\n"
                         "experts,,,,,,,,16,H100,8,1,1,16,1,,16,1,,32,BF16,none,,NeMo,0,1,,"
                         "dispatch=allgather,none\n"
                         "experts,,,,,,,,16,H100,8,1,1,16,1,,1,1,,16,FP8,none,,NeMo,0,1,,,\n"
                         "experts,,,,,,,,16,H100,8,1,1,16,1,,16,1,,16,FP8,none,,NeMo,0,1,,,\n"
                         "experts,,,,,,,,16,H100,8,2,1,8,1,,8,1,,16,BF16,none,,NeMo,0,1,,,\n";
  const auto rows = LoadTrainingRows(path, KnownModel, stacks);
  ASSERT_TRUE(rows.ok()) << rows.status();
  const auto words = [&](size_t row) {
    EXPECT_EQ((*rows)[row].refused, "");
    return ToString((*rows)[row].mapping);
  };
  EXPECT_THAT(words(0), HasSubstr("dispatch=deepep dispatch-fp8 ep-overlap"));
  EXPECT_THAT(words(1), testing::AllOf(HasSubstr("dispatch=allgather"),
                                       testing::Not(HasSubstr("ep-overlap"))));
  EXPECT_THAT(words(2), testing::Not(HasSubstr("dispatch")));
  EXPECT_THAT(words(3), testing::Not(HasSubstr("ep-overlap")));  // of one micro-batch
  EXPECT_THAT(words(4), testing::AllOf(HasSubstr("etp1"), HasSubstr("dispatch=deepep")));
  EXPECT_THAT((*rows)[4].notes, ElementsAre(HasSubstr("whole experts")));
  TrainingRow row = (*rows)[0];
  AssumeRecomputation(row, Bytes(1));
  EXPECT_EQ(row.mapping.recompute, Recompute::kNone);
  row.mapping.overlap_experts = false;
  AssumeRecomputation(row, Bytes(1));
  EXPECT_EQ(row.mapping.recompute, Recompute::kFull);
}

}  // namespace
}  // namespace foretrace
