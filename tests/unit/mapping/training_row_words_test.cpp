// Words of the column `mapping` beside the other columns: what either says alone, what both say
// alike, and what they contradict one another in.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

#include "tests/support/temp_folder.h"
#include "tests/unit/mapping/known_rows.h"

namespace foretrace {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

std::string Words(const Cells& cells, const std::string& model = "known") {
  const TrainingRow row = Judge(cells, model);
  EXPECT_EQ(row.refused, "") << cells.front().second;
  return ToString(row.mapping);
}

// Degrees and batches for which there is no column, or an empty one.
TEST(TrainingRowWordsTest, DegreesThatNoColumnStates) {
  EXPECT_THAT(Words({{"mapping", "tp2 pp4 dp2 mb4 v2"}}), HasSubstr("tp2 pp4 dp2 mb4 v2"));
  EXPECT_THAT(Words({{"mapping", "tp2 cp2"}}), HasSubstr("tp2 cp2 pp1 dp4"));
  EXPECT_THAT(Words({{"mapping", "TP=2, pp=4,VP2 layers=5,4,4,4,4,4,4,3"}}),
              AllOf(HasSubstr("tp2 pp4 dp2 mb1 v2"), HasSubstr("layers=5,4,")));
  EXPECT_THAT(Words({{"mapping", "ep16"}}, "experts"), HasSubstr("ep16"));
  EXPECT_THAT(Words({{"mapping", "ep16"}, {"ep", ""}}, "experts"), HasSubstr("ep16"));
  EXPECT_THAT(Words({{"mapping", "tp2 etp1 ep4"}}, "experts"), HasSubstr("ep4 etp1"));
  const TrainingRow batch = Judge({{"mapping", "gb48 mb3"}, {"global_batch", ""}});
  EXPECT_EQ(batch.refused, "");
  EXPECT_EQ(batch.mapping.global_batch, 48);
  EXPECT_EQ(batch.mapping.micro_batch, 3);
  const TrainingRow sums =
      Judge({{"mapping", "tp2 mb2"}, {"grad_accum", "3"}, {"global_batch", ""}});
  EXPECT_EQ(sums.refused, "");
  EXPECT_EQ(sums.mapping.global_batch, 48);  // of 8 replicas
}

TEST(TrainingRowWordsTest, DegreesThatBothState) {
  const Cells same = {{"mapping", "tp2 pp2 dp4 cp1 v1 mb2 gb32"},
                      {"tp", "2"},
                      {"pp", "2"},
                      {"dp", "4"},
                      {"cp", "1"},
                      {"vp", "0"},
                      {"micro_batch", "2"}};
  EXPECT_THAT(Words(same), HasSubstr("tp2 pp2 dp4 mb2 v1"));
  EXPECT_THAT(Words({{"mapping", "ep8"}, {"ep", "8"}}, "experts"), HasSubstr("ep8"));
  const std::tuple<const char*, const char*, const char*> others[] = {
      {"tp", "4", "tp2"}, {"pp", "1", "pp2"},          {"dp", "16", "dp8 tp2"},
      {"cp", "2", "cp4"}, {"vp", "1", "pp2 v2"},       {"ep", "8", "ep16"},
      {"ep", "0", "ep4"}, {"micro_batch", "1", "mb2"}, {"global_batch", "32", "gb64"}};
  for (const auto& [column, value, words] : others) {
    const TrainingRow row = Judge({{"mapping", words}, {column, value}}, "experts");
    EXPECT_THAT(row.refused,
                AllOf(HasSubstr(std::string(column) + " '" + value + "'"),
                      HasSubstr("mapping '" + std::string(words) + "'"), HasSubstr("contradict")));
  }
  EXPECT_THAT(Judge({{"mapping", "tp4"}, {"dp", "16"}}).refused, HasSubstr("gpus says 16"));
}

// Software whose pipelines divide a replica's batch: the column may state either.
TEST(TrainingRowWordsTest, MicroBatchesThatSoftwareDivides) {
  std::vector<SoftwareStack> stacks = Stacks();
  stacks[0].releases[0].pipeline_batches = PipelineBatches::kSamples;
  const auto micro = [&](const std::string& words, const std::string& column) {
    const TrainingRow row = Judge(
        {{"mapping", words}, {"micro_batch", column}, {"tp", "2"}, {"pp", "8"}}, "known", stacks);
    EXPECT_EQ(row.refused, "") << words;
    return row.mapping.micro_batch;
  };
  EXPECT_EQ(micro("none", "32"), 1);
  EXPECT_EQ(micro("mb32", "32"), 1);
  EXPECT_EQ(micro("mb1", "32"), 1);
  EXPECT_EQ(micro("mb8", ""), 8);
  const Cells other = {{"mapping", "mb8"}, {"micro_batch", "32"}, {"tp", "2"}, {"pp", "8"}};
  EXPECT_THAT(Judge(other, "known", stacks).refused, HasSubstr("micro_batch '32'"));
}

// `selective` is what the software has of that name.
TEST(TrainingRowWordsTest, Recomputation) {
  std::vector<SoftwareStack> stacks = Stacks();
  stacks[0].releases[0].selective = Recompute::kOperators;
  const auto judged = [&](const std::string& words, const std::string& column) {
    return Judge({{"mapping", words}, {"recompute", column}, {"micro_batch", "1"}}, "known",
                 stacks);
  };
  EXPECT_EQ(judged("selective", "").mapping.recompute, Recompute::kOperators);
  for (const auto& [words, column, form] :
       {std::tuple("full", "full", Recompute::kFull), std::tuple("full", "yes", Recompute::kFull),
        std::tuple("none zero0", "no checkpointing", Recompute::kNone),
        std::tuple("selective", "selective", Recompute::kOperators),
        std::tuple("operators", "selective", Recompute::kOperators),
        std::tuple("alternate", "every other layer", Recompute::kAlternate),
        std::tuple("light", "of norms", Recompute::kLight)}) {
    const TrainingRow row = judged(words, column);
    EXPECT_EQ(row.refused, "") << words << " " << column;
    EXPECT_EQ(row.mapping.recompute, form) << words << " " << column;
    EXPECT_TRUE(row.recompute_stated);
    EXPECT_TRUE(row.notes.empty()) << row.notes.front();
  }
  EXPECT_EQ(judged("full", "none").refused,
            "recompute 'none' and mapping 'full' contradict one another");
  EXPECT_THAT(judged("none sp", "full").refused, HasSubstr("recompute 'full'"));
  EXPECT_EQ(judged("none", "full").refused, "");  // no words
  EXPECT_THAT(judged("light", "selective").refused, HasSubstr("recompute 'selective'"));
}

// The column may leave open which kind of 8 bits; what software does in these goes with the word.
TEST(TrainingRowWordsTest, Precision) {
  std::vector<SoftwareStack> stacks = Stacks();
  stacks[0].releases[0].dispatch_fp8 = true;
  const auto judged = [&](const std::string& words, const std::string& column) {
    return Judge({{"mapping", words}, {"precision", column}}, "experts", stacks);
  };
  for (const auto& [words, column, said] :
       {std::tuple("fp8", "", "fp8"), std::tuple("fp8", "FP8 current scaling", "fp8"),
        std::tuple("mxfp8", "fp8", "mxfp8"), std::tuple("mxfp8", "MXFP8", "mxfp8"),
        std::tuple("nvfp4", "nvfp4", "nvfp4"), std::tuple("nvfp4", "fp4", "nvfp4")}) {
    const TrainingRow row = judged(std::string("ep4 ") + words, column);
    EXPECT_EQ(row.refused, "") << words << " " << column;
    EXPECT_THAT(ToString(row.mapping), HasSubstr(said)) << column;
    EXPECT_EQ(row.mapping.fp8 + row.mapping.mxfp8 + row.mapping.nvfp4, 1) << column;
    EXPECT_TRUE(row.mapping.dispatch_fp8) << words << " " << column;
  }
  EXPECT_EQ(judged("fp8", "BF16").refused,
            "precision 'BF16' and mapping 'fp8' contradict one another");
  EXPECT_THAT(judged("fp8", "mxfp8").refused, HasSubstr("precision 'mxfp8'"));
  EXPECT_THAT(judged("nvfp4", "fp8").refused, HasSubstr("precision 'fp8'"));
}

// Whether a word changes nothing hangs on what columns say, too.
TEST(TrainingRowWordsTest, WordsThatChangeNothing) {
  const Cells experts = {{"mapping", "dispatch=allgather"}, {"ep", "8"}};
  EXPECT_EQ(Judge(experts, "experts").idle, "");
  EXPECT_THAT(Judge({{"mapping", "dispatch=allgather"}}, "experts").idle, HasSubstr("ep1"));
  EXPECT_EQ(Judge({{"mapping", "ep-overlap"}, {"ep", "8"}}, "experts").idle, "");
}

// Division over replicas, formats of gradients, hosts, and what hides communication.
TEST(TrainingRowWordsTest, DivisionAndOverlap) {
  EXPECT_THAT(Words({{"mapping", "zero3"}, {"sharding", "FSDP FULL_SHARD"}}), HasSubstr("zero3"));
  EXPECT_THAT(Words({{"mapping", "zero0"}, {"sharding", "none"}}), Not(HasSubstr("zero")));
  EXPECT_THAT(Judge({{"mapping", "zero2"}, {"sharding", "FULL_SHARD"}}).refused,
              AllOf(HasSubstr("sharding 'FULL_SHARD'"), HasSubstr("mapping 'zero2'")));
  EXPECT_THAT(Judge({{"mapping", "grad32"}, {"sharding", "FSDP, mixed precision PURE"}}).refused,
              HasSubstr("sharding 'FSDP, mixed precision PURE'"));
  EXPECT_THAT(Words({{"mapping", "grad16"}, {"sharding", "FSDP, mixed precision PURE"}}),
              HasSubstr("grad16"));
  const Cells none = {{"mapping", "tp-exposed"}, {"tp", "2"}, {"overlap", "none"}};
  EXPECT_THAT(Words(none), AllOf(HasSubstr("tp-exposed"), Not(HasSubstr(" overlap"))));
  for (const char* word : {"overlap", "tp-async", "tp-chunked"}) {
    EXPECT_THAT(Judge({{"mapping", word}, {"tp", "2"}, {"overlap", "none"}}).refused,
                AllOf(HasSubstr("overlap 'none'"), HasSubstr(word)));
  }
  EXPECT_THAT(Judge({{"mapping", "overlap"}, {"note", "every overlap off"}}).refused,
              HasSubstr("note 'every overlap off'"));
  EXPECT_THAT(Judge({{"mapping", "layers=16,8"}, {"pp", "2"}, {"layers", "32"}}).refused,
              HasSubstr("24"));
}

// Modules that words and columns name have to be the same.
TEST(TrainingRowWordsTest, ModulesBesideColumns) {
  const auto row = [](const char* column, const char* text, const char* words) {
    return Judge({{"recompute", "selective"}, {column, text}, {"mapping", words}});
  };
  const auto modules = [](const char* text, const char* words) {
    return Judge({{"recompute", text}, {"mapping", words}, {"micro_batch", "1"}});
  };
  EXPECT_EQ(ToString(modules("", "recompute=mlp+core_attn").mapping.modules), "core_attn+mlp");
  EXPECT_EQ(modules("attention + mlp", "recompute=mlp+core_attn").refused, "");
  EXPECT_THAT(modules("selective: mlp", "recompute=layernorm").refused,
              HasSubstr("recompute 'selective: mlp' and mapping"));
  EXPECT_EQ(ToString(modules("selective", "recompute=layernorm").mapping.modules), "layernorm");
  EXPECT_THAT(modules("none", "recompute=layernorm").refused, HasSubstr("contradict"));
  EXPECT_THAT(modules("selective: mlp", "full").refused, HasSubstr("contradict"));
  EXPECT_EQ(modules("full, mlp included", "full block3").refused, "");
  EXPECT_EQ(modules("full, mlp included", "full block3").mapping.recomputed_layers, 3);
  EXPECT_THAT(row("recompute_modules", "mlp", "recompute=layernorm").refused,
              HasSubstr("contradict"));
}

}  // namespace
}  // namespace foretrace
