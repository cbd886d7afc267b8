// Tables as people write them, and what of their software exchanges of experts follow from.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "simulator/mapping/memory_model.h"
#include "simulator/mapping/stack_choices.h"
#include "simulator/mapping/training_rows.h"
#include "tests/support/temp_folder.h"
#include "tests/unit/mapping/known_rows.h"

namespace foretrace {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// As spreadsheets and people write tables: columns without which there is a default are missing,
// names of columns and words in other cases, numbers with ".0" or thousands separators, units.
TEST(TrainingRowsTest, OddTables) {
  const TempFolder folder;
  const std::string path = folder.path() + "/odd.csv";
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
  const TempFolder folder;
  const std::string path = folder.path() + "/dispatch.csv";
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

// How many devices there were follows from their degrees, if these are stated, and is never taken
// to be one; a framework that no file describes may say in its name how it divides.
TEST(TrainingRowsTest, DevicesAndDivisionThatFollow) {
  const auto rows = RowsOf(
      "known,,,,,,,,,H100,8,2,1,8,1,,,1,,16,BF16,,none,NeMo,0,1,,,\n"
      "known,,,,,,,,,H100,8,2,1,,1,,,1,,16,BF16,,none,NeMo,0,1,,,\n"
      "known,,,,,,,,8,H100,8,1,1,8,1,,,1,,16,BF16,,none,PyTorch FSDP,0,1,,,\n"
      "known,,,,,,,,8,H100,8,1,1,8,1,,,1,,16,BF16,,none,NeMo,OOM,,,,\n"
      "known,,,,,,,,8,H100,8,1,1,8,1,,,1,,16,BF16,,none,NeMo,0,2 s/it,,,\n",
      Stacks());
  EXPECT_EQ(rows[0].refused, "");
  EXPECT_EQ(rows[0].gpus, 16);
  EXPECT_THAT(rows[1].refused, HasSubstr("gpus is not stated"));
  EXPECT_EQ(rows[2].mapping.zero, 3);
  EXPECT_TRUE(rows[3].out_of_memory);
  EXPECT_EQ(rows[4].measured, SimTime::FromSeconds(2));
}

TEST(TrainingRowsTest, StagesOfDivisionAsPeopleWriteThem) {
  const std::pair<const char*, int> words[] = {{"ZeRO-1", 1},
                                               {"ZeRO stage 1", 1},
                                               {"zero_stage=1", 1},
                                               {"zs=1", 1},
                                               {"1", 1},
                                               {"stage 3", 3},
                                               {"zs=0", 0},
                                               {"0", 0},
                                               {"NO_SHARD", 0},
                                               {"FSDP2", 3},
                                               {"ZeRO-3 x", 3},
                                               {"DDP", 0},
                                               {"HSDP", 3},
                                               {"SHARD_GRAD_OP", 2},
                                               {"no", 0},
                                               {"FULL SHARD", 3},
                                               {"fully sharded", 3},
                                               {"full-shard", 3},
                                               {"dist opt", 1},
                                               {"ZeRO-Offload", 2},
                                               {"ZeRO-Infinity", 3},
                                               {"ZeRO++", 3},
                                               {"DP", 0},
                                               {"sharded optimizer state", 1},
                                               {"use_distributed_optimizer", 1}};
  std::string text;
  for (const auto& [word, stage] : words) text += RowOf("BF16", word, "none");
  const auto rows = RowsOf(text, Stacks());
  ASSERT_EQ(rows.size(), std::size(words));
  for (size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(rows[i].refused, "");
    EXPECT_EQ(rows[i].mapping.zero, words[i].second) << words[i].first;
  }
}

TEST(TrainingRowsTest, RecomputationAsPeopleWriteIt) {
  const std::pair<const char*, Recompute> words[] = {
      {"yes", Recompute::kFull},
      {"Y", Recompute::kFull},
      {"all", Recompute::kFull},
      {"N", Recompute::kNone},
      {"every 2 layers", Recompute::kAlternate},
      {"TRUE", Recompute::kFull},
      {"activation checkpointing", Recompute::kFull},
      {"full_block", Recompute::kFull},
      {"no", Recompute::kNone},
      {"off", Recompute::kNone},
      {"no checkpointing", Recompute::kNone},
      {"No activation checkpointing", Recompute::kNone},
      {"None (FlashAttention)", Recompute::kNone},
      {"without recomputation", Recompute::kNone},
      {"activation checkpointing off", Recompute::kNone},
      {"checkpointing: disabled", Recompute::kNone},
      {"selective (per op)", Recompute::kSelective},
      {"attention", Recompute::kSelective},
      {"selective (every other layer)", Recompute::kAlternate},
      {"mla", Recompute::kSelective}};
  std::string text;
  for (const auto& [word, recompute] : words) text += RowOf("BF16", "ZeRO-1", word);
  const auto rows = RowsOf(text, Stacks());
  ASSERT_EQ(rows.size(), std::size(words));
  for (size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(rows[i].mapping.recompute, words[i].second) << words[i].first;
    EXPECT_EQ(rows[i].notes.size(), i + 1 == rows.size() ? 1u : 0u) << words[i].first;
  }
}

TEST(TrainingRowsTest, EightBitsAsPeopleWriteThem) {
  auto stacks = Stacks();
  stacks[0].releases[0].reduces_scales = true;
  std::string text;
  for (const char* word : {"fp8_mx", "FP8 (MX)", "MXFP8", "FP8-CS", "FP8 current scaling", "FP8"}) {
    text += RowOf(word, "ZeRO-1", "none");
  }
  const auto rows = RowsOf(text, stacks);
  ASSERT_EQ(rows.size(), 6u);
  for (size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(rows[i].mapping.mxfp8, i < 3) << i;
    EXPECT_EQ(rows[i].mapping.fp8, i >= 3) << i;
    EXPECT_EQ(rows[i].software.reduces_scales, i < 3 || i == 5) << i;
  }
}

// What is not used as 0, separators and units, sequences of thousands, runs out of memory.
TEST(TrainingRowsTest, NumbersAsPeopleWriteThem) {
  const auto rows = RowsOf(
      "known,,,,,,\"1,048,576\",8k,16,H100,8,2,1,8,0,0,0,1,,16,BF16,ZeRO-1,none,NeMo,0,"
      "1.5 sec,,,\n"
      "known,,,,,,,,16,H100,8,2,1,8,,,,1,,16,BF16,ZeRO-1,none,NeMo,,OOM,,,\n",
      Stacks());
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].refused, "");
  EXPECT_EQ(rows[0].config.vocabulary, 1'048'576);
  EXPECT_EQ(rows[0].config.sequence, 8192);
  EXPECT_EQ(rows[0].measured, SimTime::FromSeconds(1.5));
  EXPECT_EQ(rows[1].refused, "");
  EXPECT_TRUE(rows[1].out_of_memory);
}

// Degrees whose product would not fit in 64 bits.
TEST(TrainingRowsTest, DegreesOfSlipsOfThePen) {
  const auto rows = RowsOf(
      "known,,,,,,,,16,H100,8,1073741824,1073741824,,16,,,1,,16,BF16,ZeRO-1,none,NeMo,,1,,,\n"
      "known,,,,,,,,16,H100,8,2,1,8,1,,,1073741824,1073741824,,BF16,ZeRO-1,none,NeMo,,1,,,\n",
      Stacks());
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_THAT(rows[0].refused, HasSubstr("tp 1073741824 is more than"));
  EXPECT_THAT(rows[1].refused, HasSubstr("grad_accum 1073741824 is more than"));
}

// Columns that stand for step_s, with separators of thousands; and what is no number is named.
TEST(TrainingRowsTest, TokensASecondAsPeopleWriteThem) {
  const TempFolder folder;
  const std::string path = folder.path() + "/tokens.csv";
  std::ofstream file(path);
  file << "model,gpus,gpu,global_batch,precision,framework,tokens_per_s_per_gpu,memory_GB\n";
  for (const char* rate : {"1024", "\"1,024\"", "\"1,024.0\"", "fast"}) {
    file << "known,2,H100,2,BF16,NeMo," << rate << ",\"1,234 GB\"\n";
  }
  file.close();
  const auto rows = LoadTrainingRows(path, KnownModel, Stacks());
  ASSERT_TRUE(rows.ok()) << rows.status();
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ((*rows)[i].refused, "");
    EXPECT_EQ((*rows)[i].measured, SimTime::FromSeconds(2));
    EXPECT_EQ((*rows)[i].memory_gib, 1234);
  }
  EXPECT_THAT((*rows)[3].refused, HasSubstr("tokens_per_s_per_gpu 'fast'"));
}

// Versions by year and month are dates, others are not: 0.14.2 is no release of before 2021.
TEST(TrainingRowsTest, VersionsInNamesOfFrameworks) {
  StackRelease first, second, third;
  first.source = "first";
  second.since = "2021-10";
  second.source = "second";
  third.since = "2025-04";
  third.source = "third";
  const std::vector<SoftwareStack> stacks = {{"nemo", {"nemo"}, {first, second, third}, "2021-10"}};
  const std::pair<const char*, const char*> names[] = {
      {"NeMo", "second"},       {"NeMo 0.14.2", "second"}, {"NeMo 2.3", "second"},
      {"NeMo v0.13", "second"}, {"NeMo 24.12", "second"},  {"NeMo v25.04", "third"}};
  for (const auto& [name, source] : names) {
    const auto rows = RowsOf("known,,,,,,,,16,H100,8,2,1,8,1,,,1,,16,BF16,ZeRO-1,none," +
                                 std::string(name) + ",0,1,,,\n",
                             stacks);
    EXPECT_EQ(rows[0].software.source, source) << name;
  }
}

// What its mapping does by itself hangs on what a run says that it recomputes.
TEST(TrainingRowsTest, WhatIsKeptHangsOnRecomputation) {
  auto stacks = Stacks();
  StackRelease& release = stacks[0].releases[0];
  release.keeps_eight = true;
  release.recompute = Recompute::kLight;
  const auto rows = RowsOf(RowOf("FP8", "ZeRO-1", "") + RowOf("FP8", "ZeRO-1", "full"), stacks);
  EXPECT_EQ(rows[0].refused, "");
  EXPECT_TRUE(rows[0].mapping.keeps_eight);
  EXPECT_EQ(rows[1].refused, "");
  EXPECT_EQ(rows[1].mapping.recompute, Recompute::kFull);
  EXPECT_FALSE(rows[1].mapping.keeps_eight);
}

TEST(TrainingRowsTest, AdaptersInNotes) {
  const std::pair<const char*, int> notes[] = {{"QLoRA", 16},
                                               {"PEFT with LoRA", 16},
                                               {"LoRA; no dropout", 16},
                                               {"LoRA r=8", 8},
                                               {"LoRA-32", 32},
                                               {"rank 64 LoRA, alpha 128", 64},
                                               {"an exploration", 0},
                                               {"all weights; no LoRA", 0},
                                               {"fine-tuned without LoRA", 0}};
  for (const auto& [note, rank] : notes) {
    const auto rows = RowsOf("known,,,,,,,,16,H100,8,2,1,8,1,,,1,,16,BF16,ZeRO-1,none,NeMo,0,1,,," +
                                 std::string(note) + "\n",
                             Stacks());
    EXPECT_EQ(rows[0].mapping.lora, rank) << note;
    EXPECT_FALSE(rows[0].mapping.lora_everywhere) << note;
  }
  const auto everywhere = RowsOf(
      "known,,,,,,,,16,H100,8,2,1,8,1,,,1,,16,BF16,ZeRO-1,none,NeMo,0,1,,,LoRA of rank 8 on all "
      "linear layers\n",
      Stacks());
  EXPECT_TRUE(everywhere[0].mapping.lora_everywhere);
  EXPECT_EQ(everywhere[0].mapping.lora, 8);
  EXPECT_THAT(everywhere[0].notes, testing::Not(testing::Contains(HasSubstr("LoRA"))));
}

// A field in quotes goes on over lines; what is never closed ends with its own.
TEST(TrainingRowsTest, FieldsOverSeveralLines) {
  const std::string row = "known,,,,,,,,16,H100,8,2,1,8,,,,1,,16,BF16,ZeRO-1,none,NeMo,,1,,,";
  const auto rows = RowsOf(row + "\"one\r\ntwo\"\r\n" + row + "12\" wide\n" + row + "\n", Stacks());
  ASSERT_EQ(rows.size(), 3u);
  for (const TrainingRow& each : rows) EXPECT_EQ(each.refused, "") << each.name;
  EXPECT_EQ(rows[0].name, "forms.csv:2");
  EXPECT_EQ(rows[1].name, "forms.csv:4");
  EXPECT_EQ(rows[2].name, "forms.csv:5");
}

// Interleaved schedules here have whole groups of as many micro-batches as stages.
TEST(TrainingRowsTest, GroupsOfMicroBatchesThatAreNotWhole) {
  const auto rows =
      RowsOf("known,,,,,,,,16,H100,8,1,4,4,1,2,,1,,24,BF16,ZeRO-1,none,NeMo,,1,,,\n", Stacks());
  EXPECT_EQ(rows[0].refused, "");
  EXPECT_EQ(rows[0].mapping.microbatches(), 6);
  EXPECT_EQ(WholeGroups(rows[0].mapping, true).microbatches(), 8);
  EXPECT_EQ(WholeGroups(rows[0].mapping, false).microbatches(), 4);
}

TEST(TrainingRowsTest, MoreChunksThanLayers) {
  const auto rows = RowsOf(
      "known,13,,,,,,,16,H100,8,2,8,1,,2,,1,,16,BF16,ZeRO-1,none,NeMo,,1,,,\n"
      "known,14,,,,,,,16,H100,8,2,8,1,,2,,1,,16,BF16,ZeRO-1,none,NeMo,,1,,,\n",
      Stacks());
  EXPECT_THAT(rows[0].refused, HasSubstr("13 layers are fewer than the 16 chunks"));
  EXPECT_EQ(rows[1].refused, "");
  EXPECT_TRUE(rows[1].mapping.counted_ends);  // the first chunk is the embedding alone
}

// A pipeline divides what is configured as a replica's batch, where the software does so; rows
// that state at least as many micro-batches as stages are taken as they are.
TEST(TrainingRowsTest, PipelinesDivideBatches) {
  auto stacks = Stacks();
  const auto micro_batches = [&](PipelineBatches batches, const std::string& batch) {
    stacks[0].releases[0].pipeline_batches = batches;
    const auto rows = RowsOf("known,,,,,,,,16,H100,8,2,4,2,1,," + batch +
                                 ",BF16,ZeRO-1,none,NeMo,0,1,,,Interleaved 1F1B\n",
                             stacks);
    EXPECT_EQ(rows[0].refused, "");
    EXPECT_EQ(rows[0].mapping.chunks, 2);
    return rows[0].mapping.micro_batch;
  };
  EXPECT_EQ(micro_batches(PipelineBatches::kStages, ",16,1,32"), 4);
  EXPECT_EQ(micro_batches(PipelineBatches::kChunks, ",16,1,32"), 2);
  EXPECT_EQ(micro_batches(PipelineBatches::kSamples, ",16,1,32"), 1);
  EXPECT_EQ(micro_batches(PipelineBatches::kSamples, ",2,8,32"), 2);
}

// Latent attention has no windows, by which documents that share a sequence are told apart.
TEST(TrainingRowsTest, AdaptersOfLatentAttention) {
  const auto find = [](const std::string& name, bool own_sizes) {
    auto model = KnownModel(name, own_sizes);
    (*model)->latent = 512;
    (*model)->value_size = 64;
    (*model)->rotary_size = 32;
    return model;
  };
  const TempFolder folder;
  const std::string path = folder.path() + "/latent.csv";
  std::ofstream(path) << kHeader
                      << "known,,,,,,,,16,H100,8,2,1,8,1,,,1,,16,BF16,ZeRO-1,none,NeMo,0,1,LoRA\n";
  const auto rows = LoadTrainingRows(path, find, Stacks());
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_EQ((*rows)[0].refused, "");
  EXPECT_EQ((*rows)[0].config.window, 0);
  EXPECT_THAT((*rows)[0].notes, testing::Contains(HasSubstr("sequences taken as whole")));
}

TEST(TrainingRowsTest, SchedulesInNotes) {
  const auto chunks = [&](const std::string& note) {
    const auto rows =
        RowsOf("known,,,,,,,,16,H100,8,2,4,2,1,,,1,,32,BF16,ZeRO-1,none,NeMo,0,1,,," + note + "\n",
               Stacks());
    return rows[0].mapping.chunks;
  };
  EXPECT_EQ(chunks("Interleaved 1F1B"), 2);
  EXPECT_EQ(chunks("non-interleaved 1F1B"), 1);
  EXPECT_EQ(chunks("1F1B, not interleaved"), 1);
}

TEST(TrainingRowsTest, ModulesOfFurtherTokensAreTheSoftwares) {
  TransformerConfig model;
  model.further_tokens = 1;
  StackRelease release;
  SetKernels(release, model);
  EXPECT_EQ(model.further_tokens, 0);
  release.further_tokens = true;
  model.further_tokens = 1;
  SetKernels(release, model);
  EXPECT_EQ(model.further_tokens, 1);
}

}  // namespace
}  // namespace foretrace
