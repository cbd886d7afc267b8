#include "simulator/mapping/training_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "simulator/base/csv.h"
#include "simulator/mapping/iteration_model.h"
#include "simulator/mapping/memory_model.h"
#include "simulator/mapping/release_spread.h"
#include "tests/support/round_links.h"
#include "tests/support/temp_folder.h"
#include "tests/unit/mapping/known_rows.h"

namespace foretrace {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(CsvTest, QuotedFields) {
  EXPECT_THAT(SplitCsvLine("a,\"b, c\",,\"d \"\"e\"\"\"\r"),
              ElementsAre("a", "b, c", "", "d \"e\""));
  EXPECT_THAT(SplitCsvLine(""), ElementsAre(""));
}

std::vector<TrainingRow> Read(const std::string& lines) {
  const TempFolder folder;
  const std::string path = folder.path() + "/rows.csv";
  std::ofstream(path) << kHeader << lines;
  EXPECT_TRUE(IsTrainingTable(path));
  const auto rows = LoadTrainingRows(path, KnownModel, Stacks());
  EXPECT_TRUE(rows.ok()) << rows.status();
  return rows.ok() ? *rows : std::vector<TrainingRow>(16);
}

TEST(TrainingRowsTest, StateSpaceModelsAreRefused) {
  const auto rows = Read("nemotron-h-56B,,,,,,,,8,H100,8,1,1,8,1,,,1,,8,BF16,none,,NeMo,0,1,\n");
  EXPECT_THAT(rows[0].refused,
              HasSubstr("a model with state-space layers or linear attention needs"));
}

// A comma within a note moved what follows it.
TEST(TrainingRowsTest, RowsWiderThanTheirTableAreRefused) {
  const std::string row = "known,,,,,,,,16,H100,8,4,1,4,1,,,1,,16,BF16,none,,NeMo,0,1,";
  const auto rows = Read(row + "\n" + row + ", ,\n" + row + ",more\n");
  EXPECT_EQ(rows[0].refused, "");
  EXPECT_EQ(rows[1].refused, "");  // blanks alone
  EXPECT_THAT(rows[2].refused, HasSubstr("28 values for 27 columns"));
  EXPECT_THAT(rows[2].refused, HasSubstr("stands in quotes"));
}

// What the software does unless the row says otherwise.
TEST(TrainingRowsTest, SoftwareOfARow) {
  std::vector<SoftwareStack> stacks = Stacks();
  stacks[0].releases[0].recompute = Recompute::kSelective;
  const TempFolder folder;
  const std::string path = folder.path() + "/software.csv";
  std::ofstream(path) << kHeader
                      << "known,,,,,,,,16,H100,8,4,1,4,1,,,1,,16,BF16,none,,NeMo,0,1,\n"
                         "known,,,,,,,,16,H100,8,1,1,16,1,,,1,,16,BF16,none,none,NeMo,0,1,\n";
  const auto rows = LoadTrainingRows(path, KnownModel, stacks);
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_EQ(ToString((*rows)[0].mapping),
            "tp4 pp1 dp4 mb1 v1 selective sp overlap tp-chunked grad16");
  EXPECT_EQ(ToString((*rows)[1].mapping), "tp1 pp1 dp16 mb1 v1 none overlap grad16");
  EXPECT_TRUE((*rows)[0].recompute_stated);
}

// 32,000 words are 250 times 128, and 62.5 times that of four ranks.
TEST(TrainingRowsTest, VocabulariesArePadded) {
  std::vector<SoftwareStack> stacks = Stacks();
  stacks[0].releases[0].vocabulary_multiple = 128;
  const TempFolder folder;
  const std::string path = folder.path() + "/padded.csv";
  std::ofstream(path) << kHeader
                      << "known,,,,,,,,16,H100,8,4,1,4,1,,,1,,16,BF16,none,,NeMo,0,1,\n"
                         "known,,,,,,,,16,H100,8,1,1,16,1,,,1,,16,BF16,none,none,NeMo,0,1,\n";
  const auto rows = LoadTrainingRows(path, KnownModel, stacks);
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_EQ((*rows)[0].config.vocabulary, 63 * 128 * 4);
  EXPECT_EQ((*rows)[1].config.vocabulary, 32000);
}

TEST(TrainingRowsTest, ReadsSizesAndWhatSoftwareDoes) {
  const auto rows = Read(
      "known,30,,,,,,4096,16,H100,8,4,1,4,1,,,2,2,16,BF16,distributed optimizer,,NeMo,0,1.5,\n"
      "own,24,2048,16,,8192,50000,1024,8,A100-40GB,8,,,,,,,4,1,32,bf16,\"FSDP, mixed precision "
      "PURE\",full,Composer,0,2,\n");
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].refused, "");
  EXPECT_EQ(rows[0].config.layers, 30);
  EXPECT_EQ(rows[0].config.hidden, 4096);
  EXPECT_EQ(rows[0].config.sequence, 4096);
  EXPECT_EQ(ToString(rows[0].mapping),
            "tp4 pp1 dp4 mb2 v1 none sp zero1 overlap tp-chunked grad16");
  EXPECT_EQ(rows[0].mapping.global_batch, 16);
  EXPECT_EQ(rows[1].refused, "");
  EXPECT_EQ(ToString(rows[1].mapping), "tp1 pp1 dp8 mb4 v1 full zero3 overlap grad16");
  EXPECT_EQ(rows[1].family, "composer");
  EXPECT_EQ(rows[1].software.attention_slowdown.at("GA100"), 2);
}

TEST(TrainingRowsTest, AnotherNameOfAModelIsSaid) {
  const auto rows = Read("alias,,,,,,,,8,H100,8,1,1,8,1,,,1,,8,BF16,none,,NeMo,0,1,\n");
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].refused, "");
  EXPECT_THAT(rows[0].notes, ElementsAre("the model is taken to be known"));
}

// 16 ranks of expert parallelism are not among 8 replicas, but among all 16 devices; 8 are among
// the replicas, and 32 nowhere.
TEST(TrainingRowsTest, ExpertsAreWholeWhereNothingElseCanBe) {
  const auto rows = Read(
      "experts,,,,,,,,16,H100,8,2,1,8,1,,16,1,,16,BF16,none,,NeMo,0,1,\n"
      "experts,,,,,,,,16,H100,8,2,1,8,1,,8,1,,16,BF16,none,,NeMo,0,1,\n"
      "experts,,,,,,,,16,H100,8,2,1,8,1,,32,1,,16,BF16,none,,NeMo,0,1,\n");
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0].refused, "");
  EXPECT_EQ(rows[0].mapping.expert_width(), 1);
  EXPECT_THAT(rows[0].notes, ElementsAre(HasSubstr("whole experts")));
  EXPECT_EQ(rows[1].mapping.expert_width(), 2);
  EXPECT_THAT(rows[1].notes, ElementsAre());
  EXPECT_THAT(rows[2].refused, HasSubstr("C3"));
}

// Of torchtitan's rows under FSDP2 those with a pipeline keep weights gathered and gradients whole;
// a framework may say what is divided; PyTorch's second FSDP divides parameter by parameter.
TEST(TrainingRowsTest, FsdpByItselfAndUnderPipelines) {
  std::vector<SoftwareStack> stacks = Stacks();
  StackRelease& release = stacks[0].releases[0];
  release.pipelines_keep_weights = release.flat_parameters = true;
  const TempFolder folder;
  const std::string path = folder.path() + "/fsdp.csv";
  std::ofstream(path) << kHeader
                      << "known,,,,,,,,16,H100,8,1,2,8,1,,1,1,,16,BF16,FSDP,,NeMo,0,1,\n"
                         "known,,,,,,,,16,H100,8,1,1,16,1,,1,1,,16,BF16,FSDP,,NeMo,0,1,\n"
                         "known,,,,,,,,16,H100,8,1,1,16,1,,1,1,,16,BF16,,,NeMo FSDP,0,1,\n"
                         "known,,,,,,,,16,H100,8,1,1,16,1,,1,1,,16,BF16,FSDP2,,NeMo,0,1,\n";
  const auto rows = LoadTrainingRows(path, KnownModel, stacks);
  ASSERT_TRUE(rows.ok()) << rows.status();
  ASSERT_EQ(rows->size(), 4u);
  for (const TrainingRow& row : *rows) EXPECT_EQ(row.refused, "");
  EXPECT_EQ((*rows)[0].mapping.zero, 1);
  EXPECT_THAT((*rows)[0].notes, ::testing::Contains(HasSubstr("as zero1")));
  EXPECT_EQ((*rows)[1].mapping.zero, 3);
  EXPECT_EQ((*rows)[2].mapping.zero, 3);
  EXPECT_TRUE((*rows)[1].software.flat_parameters);
  EXPECT_TRUE((*rows)[3].software.per_parameter_sharding);
  EXPECT_FALSE((*rows)[3].software.flat_parameters);
}

TEST(TrainingRowsTest, EightBitsAdaptersAndStacks) {
  const auto rows = Read(
      "known,,,,,,,,16,H100,8,1,1,16,1,,,1,,16,FP8,none,,NeMo,0,1,\n"
      "known,,,,,,,,16,H100,8,1,1,16,1,,,1,,16,BF16,none,,NeMo,0,1,x LoRA\n"
      "known,,,,,,,,16,H100,8,1,1,16,1,,,1,,16,MXFP8,none,,abacus,0,1,\n"
      "known,,,,,,,,16,H100,8,1,1,16,1,,,1,,16,float8 rowwise,none,,NeMo,0,1,\n");
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_EQ(rows[0].refused, "");
  EXPECT_EQ(ToString(rows[0].mapping), "tp1 pp1 dp16 mb1 v1 none overlap fp8 grad16");
  EXPECT_EQ(rows[0].config.dtype, DType::kBFloat16);
  EXPECT_FALSE(rows[0].scaled_by_row);
  EXPECT_TRUE(rows[3].scaled_by_row);
  EXPECT_FALSE(rows[3].software.casts_before_gathers);
  EXPECT_EQ(ToString(rows[1].mapping), "tp1 pp1 dp16 mb1 v1 none overlap lora16 grad16");
  // Fine-tuning packs documents.
  EXPECT_EQ(rows[1].notes.size(), 2u);
  EXPECT_EQ(rows[1].config.window, 200);
  EXPECT_TRUE(rows[1].config.window_pieces);
  EXPECT_EQ(rows[0].config.window, 0);
  EXPECT_EQ(rows[2].refused, "");
  ASSERT_EQ(rows[2].notes.size(), 1u);
  EXPECT_THAT(rows[2].notes[0], HasSubstr("framework 'abacus'"));
  EXPECT_TRUE(rows[2].config.fused_attention);
  EXPECT_TRUE(rows[2].mapping.mxfp8);
  EXPECT_FALSE(rows[2].mapping.fp8);
}

// Weights are divided within a node of 8, whose 2-way tensor-parallel groups leave 4 replicas. A
// run that went out of memory has no step.
TEST(TrainingRowsTest, HybridShardingAndRunsOutOfMemory) {
  const auto rows = Read(
      "known,,,,,,,,32,H100,8,2,1,16,1,,,1,,16,BF16,HSDP,,Composer,0,1,\n"
      "known,,,,,,,,32,H100,8,2,1,16,1,,,1,,16,BF16,FSDP,,Composer,1,,\n");
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].refused, "");
  EXPECT_EQ(rows[0].mapping.zero, 3);
  EXPECT_EQ(rows[0].mapping.hybrid, 4);
  EXPECT_EQ(rows[1].refused, "");
  EXPECT_TRUE(rows[1].out_of_memory);
  EXPECT_EQ(rows[1].mapping.hybrid, 0);
}

// Where the recipe says so, 16 replicas divide the weights and others hold copies.
TEST(TrainingRowsTest, ShardsOfARecipe) {
  std::vector<SoftwareStack> stacks = Stacks();
  stacks[0].releases[0].zero = 3;
  stacks[0].releases[0].shards = 16;
  const TempFolder folder;
  const std::string path = folder.path() + "/shards.csv";
  std::ofstream(path) << kHeader
                      << "known,,,,,,,,64,H100,8,1,1,64,1,,,1,,64,BF16,,none,NeMo,0,1,\n"
                         "known,,,,,,,,16,H100,8,1,1,16,1,,,1,,16,BF16,,none,NeMo,0,1,\n"
                         "known,,,,,,,,40,H100,8,1,1,40,1,,,1,,40,BF16,,none,NeMo,0,1,\n";
  const auto rows = LoadTrainingRows(path, KnownModel, stacks);
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_EQ((*rows)[0].mapping.hybrid, 16);
  EXPECT_EQ((*rows)[1].mapping.hybrid, 0);
  EXPECT_EQ((*rows)[2].mapping.hybrid, 0);
}

TEST(TrainingRowsTest, StatesOnTheHost) {
  const auto rows = Read(
      "known,,,,,,,,16,H100,8,1,1,16,1,,,1,,16,BF16,\"ZeRO-3, optimizer on CPU, parameters on "
      "CPU\","
      ",NeMo,0,1,\n"
      "known,,,,,,,,16,H100,8,1,1,16,1,,,1,,,BF16,\"ZeRO-2, optimizer on CPU\",,NeMo,1,,\n"
      "known,,,,,,,,16,H100,8,1,1,16,1,,,1,,16,BF16,\"FSDP, CPU offload\",,Composer,0,1,\n");
  for (const TrainingRow& row : rows) {
    EXPECT_EQ(row.refused, "");
    EXPECT_TRUE(row.mapping.offload);
  }
  EXPECT_TRUE(rows[0].mapping.offload_weights);
  EXPECT_FALSE(rows[1].mapping.offload_weights);
  EXPECT_TRUE(rows[2].mapping.offload_weights);
  // Of a run out of memory the micro-batch counts, whatever the batch.
  EXPECT_EQ(rows[1].mapping.global_batch, 16);
}

TEST(TrainingRowsTest, ContradictionsAreListedOthersJudged) {
  const auto rows = Read(
      "known,,,,,,,,16,H100,8,4,1,2,1,,,1,,16,BF16,none,,NeMo,0,1,\n"
      "known,,,,,,,,16,H100,8,1,1,16,1,,,1,,1204,BF16,none,,NeMo,0,1,\n"
      "strange,,,,,,,,16,H100,8,1,1,16,1,,,1,,16,BF16,none,,NeMo,0,1,\n"
      "known,,,,,,,,16,H100,8,1,1,16,1,,,x,,16,BF16,none,,NeMo,0,1,\n"
      "known,,,,,,,,16,H100,8,1,1,16,1,,,1,,16,BF16,none,,NeMo,0,0,\n"
      "known,,,,,,,,16,H100,8,1,1,16,1,,,1,,16,BF16,none,,NeMo,0,1,\n");
  const char* causes[] = {"gpus says 16", "no multiple", "no model 'strange'", "micro_batch 'x'",
                          "step_s '0'"};
  ASSERT_EQ(rows.size(), 6u);
  for (size_t i = 0; i < 5; ++i) EXPECT_THAT(rows[i].refused, HasSubstr(causes[i])) << i;
  EXPECT_EQ(rows[0].name, "rows.csv:2");
  EXPECT_EQ(rows[5].refused, "");
}

// Two releases took 1 and 1.5 s for one job: 50 %. The third row is another job, the fourth is not
// measured.
TEST(ReleaseSpreadTest, SameJobOtherRelease) {
  auto rows = Read(
      "known,,,,,,,,16,H100,8,1,1,16,1,,,1,,16,BF16,none,,NeMo,0,1,\n"
      "known,,,,,,,,16,H100,8,1,1,16,1,,,1,,16,BF16,none,,NeMo,0,1.5,\n"
      "known,,,,,,,,16,H100,8,2,1,8,1,,,1,,16,BF16,none,,NeMo,0,9,\n"
      "known,,,,,,,,16,H100,8,1,1,16,1,,,1,,16,BF16,none,,NeMo,0,0,\n");
  rows[1].stack += " 25.02";
  std::vector<const TrainingRow*> all;
  for (const TrainingRow& row : rows) all.push_back(&row);
  const auto spreads = ReleaseSpreads(all);
  ASSERT_EQ(spreads.size(), 1u);
  EXPECT_EQ(spreads[0].releases, 2);
  EXPECT_NEAR(spreads[0].percent(), 50, 1e-9);
  EXPECT_THAT(spreads[0].job, HasSubstr("known on 16 H100"));
}

// dp 4 x micro-batches of 1 x 2 is 8, not 16. In 2 s 4 GPUs at 8,192 tokens/s pass 65,536 tokens:
// 16 sequences of 4,096, so the batch is right and the accumulation is not; at half that rate
// neither can be told.
TEST(TrainingRowsTest, TokensDecideBetweenBatchAndAccumulation) {
  std::string header = kHeader;
  header.insert(header.size() - 1, ",tokens_per_s_per_gpu,note");
  const std::string row = "known,,,,,,,4096,4,H100,8,1,1,4,1,,,1,2,16,BF16,none,,NeMo,0,2,,";
  const TempFolder folder;
  const std::string path = folder.path() + "/tokens.csv";
  std::ofstream(path) << header << row << "8192,\n" << row << "4096,\n";
  const auto rows = LoadTrainingRows(path, KnownModel, Stacks());
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_EQ((*rows)[0].refused, "");
  EXPECT_EQ((*rows)[0].mapping.microbatches(), 4);
  EXPECT_THAT((*rows)[0].notes, ElementsAre(HasSubstr("the batch is taken")));
  EXPECT_THAT((*rows)[1].refused, HasSubstr("grad_accum 2"));
}

// What no column says: exchanges of heads, adapters, layers by stage. In 2 s 16 GPUs at 4,096
// tokens/s pass 32 sequences of 4,096, as 8 replicas of 2 x 2 have.
// Megatron Core's cp_comm_type, by its column or in a note; words of the column `mapping` stand.
TEST(TrainingRowsTest, HowPartsOfSequencesExchange) {
  std::string header = kHeader;
  header.insert(header.size() - 1, ",tokens_per_s_per_gpu,mapping,cp_comm_type");
  const TempFolder folder;
  const std::string path = folder.path() + "/forms.csv";
  const std::string row =
      "known,32,,,,,,4096,16,H100,8,1,1,8,2,,,2,2,,bfloat16,SHARD_GRAD_OP,,NeMo,0,";
  const std::string alone =
      "known,32,,,,,,4096,16,H100,8,1,1,16,1,,,2,2,,bfloat16,SHARD_GRAD_OP,,NeMo,0,";
  std::ofstream(path) << header << row << ",,4096,,a2a\n"
                      << row << ",,4096,,p2p\n"
                      << row << ",,4096,,all_gather\n"
                      << row << ",\"--cp-comm-type a2a\",4096,,\n"
                      << row << ",,4096,ring,a2a\n"
                      << alone << ",,4096,,a2a\n"
                      << row << ",,4096,,carrier pigeon\n"
                      << row << ",DeepSpeed-Ulysses,4096,,\n"
                      << row << ",context parallelism by ring attention,4096,,\n"
                      << row << ",cp all-to-all,4096,,\n"
                      << row << ",no Ulysses,4096,,p2p\n"
                      << row << ",ring all-reduce,4096,,all-gather\n"
                      << row << ",,4096,,Ulysses\n";
  const auto read = LoadTrainingRows(path, KnownModel, Stacks());
  ASSERT_TRUE(read.ok()) << read.status();
  const std::vector<TrainingRow>& rows = *read;
  const std::pair<bool, bool> ring_and_ulysses[] = {{false, true}, {true, false}, {false, false},
                                                    {false, true}, {true, false}, {false, false}};
  for (size_t i = 0; i < std::size(ring_and_ulysses); ++i) {
    EXPECT_EQ(rows[i].refused, "") << i;
    EXPECT_EQ(std::pair(rows[i].mapping.ring, rows[i].mapping.ulysses), ring_and_ulysses[i]) << i;
  }
  EXPECT_THAT(rows[6].unread, ElementsAre(HasSubstr("carrier pigeon")));
  const std::pair<bool, bool> in_words[] = {{false, true}, {true, false},  {false, true},
                                            {true, false}, {false, false}, {false, true}};
  for (size_t i = 0; i < std::size(in_words); ++i) {
    const TrainingRow& said = rows[7 + i];
    EXPECT_EQ(std::pair(said.mapping.ring, said.mapping.ulysses), in_words[i]) << i;
    EXPECT_THAT(said.unread, testing::IsEmpty()) << i;
  }
}

TEST(TrainingRowsTest, WordsOfMappingsAndWhatFollows) {
  std::string header = kHeader;
  header.insert(header.size() - 1, ",tokens_per_s_per_gpu,mapping");
  const TempFolder folder;
  const std::string path = folder.path() + "/words.csv";
  const std::string row = "known,32,,,,,,4096,16,H100,8,1,1,8,2,,,2,2,,bfloat16,";
  const std::string staged = "known,32,,,,,,4096,16,H100,8,1,2,8,1,,,2,2,,amp_bf16,";
  std::ofstream(path) << header << row << "FULL_SHARD,,NeMo,0,,,4096,ulysses\n"
                      << staged << "none,,NeMo,0,2,,,\"layers=17,15 lora32 full\"\n"
                      << staged << "none,,NeMo,0,2,,,tp2\n"
                      << staged << "none,,NeMo,0,2,,,fast\n"
                      << row << "SHARD_GRAD_OP,,NeMo,0,,,,\n";
  const auto read = LoadTrainingRows(path, KnownModel, Stacks());
  ASSERT_TRUE(read.ok()) << read.status();
  const std::vector<TrainingRow>& rows = *read;
  EXPECT_EQ(rows[0].refused, "");
  EXPECT_TRUE(rows[0].mapping.ulysses);
  EXPECT_FALSE(rows[0].mapping.ring);
  EXPECT_EQ(rows[0].mapping.zero, 3);
  EXPECT_EQ(rows[0].mapping.global_batch, 32);
  EXPECT_EQ(rows[0].measured, SimTime::FromSeconds(2));
  EXPECT_EQ(rows[1].refused, "");
  EXPECT_THAT(rows[1].mapping.layers, ElementsAre(17, 15));
  EXPECT_EQ(rows[1].mapping.lora, 32);
  EXPECT_TRUE(rows[1].recompute_stated);
  EXPECT_EQ(rows[1].config.dtype, DType::kBFloat16);
  EXPECT_THAT(rows[2].refused, HasSubstr("tp '1' and mapping 'tp2' contradict"));
  EXPECT_THAT(rows[3].refused, HasSubstr("'fast' is not part of a mapping"));
  EXPECT_THAT(rows[4].refused, HasSubstr("no step_s is stated"));
  EXPECT_EQ(rows[4].mapping.zero, 2);
}

// Llama 3.1 405B: 126 layers, embedding and output layer on 8 stages of 8 chunks are 2 a chunk;
// BLOOM: 70 layers and both ends on 12 stages are 6 a stage.
// The model's heads of their own size stay where a row repeats its sizes; sizes that do not divide
// are listed.
TEST(TrainingRowsTest, SizesAreChecked) {
  const auto rows = Read(
      "known,30,4096,32,,,,4096,8,H100,8,1,1,8,1,,,1,1,8,BF16,none,,NeMo,0,1.5,\n"
      "known,30,4096,32,5,,,4096,8,H100,8,1,1,8,1,,,1,1,8,BF16,none,,NeMo,0,1.5,\n"
      "known,30,2048,16,,,,4096,8,H100,8,1,1,8,1,,,1,1,8,BF16,none,,NeMo,0,1.5,\n");
  EXPECT_EQ(rows[0].refused, "");
  EXPECT_EQ(rows[0].config.head_size, 64);
  EXPECT_THAT(rows[1].refused, HasSubstr("not a multiple of kv_heads 5"));
  EXPECT_EQ(rows[2].config.head_size, 0);
}

// 30 layers of 12 h^2 weights, 6e9, take 20 bytes each with their gradients and optimizer: more
// than 80 GB by half. Whole layers are recomputed, unless the row says otherwise, or the memory is
// not known or large.
TEST(TrainingRowsTest, RunsThatDidFit) {
  const std::string sizes = "known,30,,,,,,4096,8,H100,8,1,1,8,1,,,1,1,8,BF16,none,";
  auto rows = Read(sizes + ",NeMo,0,1.5,\n" + sizes + "none,NeMo,0,1.5,\n");
  const auto assumed = [&](size_t row, Bytes memory) {
    TrainingRow judged = rows[row];
    AssumeRecomputation(judged, memory);
    return judged.mapping.recompute;
  };
  EXPECT_EQ(assumed(0, Bytes(80'000'000'000)), Recompute::kFull);
  EXPECT_EQ(assumed(0, Bytes(1'000'000'000'000)), Recompute::kNone);
  EXPECT_EQ(assumed(0, Bytes()), Recompute::kNone);
  EXPECT_EQ(assumed(1, Bytes(80'000'000'000)), Recompute::kNone);
}

// 31 layers on 4 stages, with which neither 4 nor 33 divide: 8, 8, 8, 7.
TEST(UnevenStagesTest, FirstStagesHaveOneMore) {
  const auto rows = Read("known,31,,,,,,4096,16,H100,8,1,4,4,1,,,1,4,16,BF16,none,,NeMo,0,1.5,\n");
  EXPECT_EQ(rows[0].refused, "");
  EXPECT_THAT(rows[0].mapping.layers, ElementsAre(8, 8, 8, 7));
  EXPECT_THAT(rows[0].notes, ElementsAre(HasSubstr("the first 3 have one more")));
}

TEST(UnevenStagesTest, EndsCountAsLayers) {
  TransformerConfig c;
  c.hidden = 1024;
  c.heads = 16;
  c.vocabulary = 1000;
  c.sequence = 128;
  c.layers = 126;
  ParallelMapping m;
  m.pipeline = 8;
  m.chunks = 8;
  m.global_batch = 16;
  EXPECT_FALSE(CheckMapping(c, m, 8).ok());
  m.counted_ends = true;
  EXPECT_TRUE(CheckMapping(c, m, 8).ok()) << CheckMapping(c, m, 8);
  EXPECT_EQ(LayersOf(c, m, 0, 0), 1);
  EXPECT_EQ(LayersOf(c, m, 0, 1), 2);
  EXPECT_EQ(LayersOf(c, m, 7, 7), 1);
  int64_t all = 0;
  for (int32_t s = 0; s < 8; ++s) all += StageLayers(c, m, s);
  EXPECT_EQ(all, 126);
  EXPECT_TRUE(EstimateIteration(c, m, FlatCluster()).ok());
  const auto read = ParseMapping(ToString(m), 16, "test");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, m);
  c.layers = 70;
  m.pipeline = 12;
  m.chunks = 1;
  EXPECT_EQ(LayersOf(c, m, 0, 0), 5);
  EXPECT_EQ(LayersOf(c, m, 5, 0), 6);
  EXPECT_EQ(LayersOf(c, m, 11, 0), 5);
  c.layers = 71;
  EXPECT_THAT(std::string(CheckMapping(c, m, 12).message()), HasSubstr("embedding"));
}

// Layers of 10, gathers of 4, reductions of 3: 4, then 10 (a gather of 4 behind it), then max(10,
// 7) for each further layer, and 3 after the last. With reductions of 12 the links decide: 4, 10,
// then 16 a layer, and the last layer's 12 after the one before's.
TEST(PassDurationTest, GathersAheadAndReductionsBehind) {
  const auto us = [](int64_t n) { return SimTime::FromUs(static_cast<double>(n)); };
  EXPECT_EQ(PassDuration(us(10), 1, us(4), us(3)), us(4 + 10 + 3));
  EXPECT_EQ(PassDuration(us(10), 4, us(4), us(3)), us(4 + 10 + 10 * 2 + 10 + 3));
  EXPECT_EQ(PassDuration(us(10), 4, us(4), us(12)), us(4 + 10 + 16 * 2 + 12 + 12));
  EXPECT_EQ(PassDuration(us(10), 3, us(14)), us(14 + 14 + 14 + 10));
  EXPECT_EQ(PassDuration(us(10), 3, SimTime()), us(30));
}

// Three layers of 10, gathers of 4, reductions of 3: the reductions begin at 14, 24 and 34, and of
// copies, one after another behind them, 8 each at 17, 27 and 37; 12 each at 17, 29 and 41. Without
// gathers the reductions begin at 10, 20 and 30.
TEST(PassDurationTest, CopiesSumTheirSharesBesideTheNextReductions) {
  const auto us = [](int64_t n) { return SimTime::FromUs(static_cast<double>(n)); };
  const auto three = [&](int64_t gather, int64_t copies) {
    const LayerPass layer{us(10), us(gather), us(3), us(copies)};
    return PassDuration(std::vector<LayerPass>{layer, layer, layer});
  };
  EXPECT_EQ(three(4, 0), us(37));
  EXPECT_EQ(three(4, 8), us(45));
  EXPECT_EQ(three(4, 12), us(53));
  EXPECT_EQ(three(0, 8), us(41));
  EXPECT_EQ(three(0, 12), us(13 + 3 * 12));
}

}  // namespace
}  // namespace foretrace
