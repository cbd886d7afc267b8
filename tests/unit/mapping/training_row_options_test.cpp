// Rows that say what trainers' options are called.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <fstream>
#include <tuple>

#include "simulator/mapping/training_row_fields.h"
#include "simulator/mapping/training_rows.h"
#include "tests/support/temp_folder.h"
#include "tests/unit/mapping/known_rows.h"

namespace foretrace {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Notes name how tokens go to experts, and what hides that, by trainers' options.
TEST(TrainingRowsTest, DispatchIsNamed) {
  const auto row = [](int tensor, const char* note) {
    return "experts,,,,,,,,16,H100,8," + std::to_string(tensor) + ",1," +
           std::to_string(16 / tensor) + ",1,,8,1,,64,BF16,none,none,Composer,0,1,,,\"" + note +
           "\"\n";
  };
  const auto rows = RowsOf(row(1, "--moe-token-dispatcher-type flex --moe-enable-deepep") +
                               row(1, "DeepEP, --overlap-moe-expert-parallel-comm") +
                               row(1, "allgather dispatcher") + row(1, "no DeepEP") +
                               row(2, "DeepEP") + row(1, "moe_flex_dispatcher_backend hybridep"),
                           Stacks());
  ASSERT_EQ(rows.size(), 6u);
  const auto words = [&](size_t i) {
    EXPECT_EQ(rows[i].refused, "") << i;
    return ToString(rows[i].mapping);
  };
  EXPECT_THAT(words(0),
              testing::AllOf(HasSubstr("dispatch=deepep"), testing::Not(HasSubstr("ep-overlap"))));
  EXPECT_THAT(words(1), HasSubstr("dispatch=deepep ep-overlap"));
  EXPECT_THAT(words(2), HasSubstr("dispatch=allgather"));
  EXPECT_THAT(words(3), testing::Not(HasSubstr("dispatch")));
  EXPECT_THAT(words(4), testing::Not(HasSubstr("dispatch")));
  EXPECT_THAT(rows[4].notes, testing::Contains(HasSubstr("is of whole experts")));
  EXPECT_THAT(words(5), HasSubstr("dispatch=hybridep"));
}

// Of 61 layers on 8 stages the last has what 7 of 8 leave, 5, with software that spares it; of 33,
// 7 of 5 would leave none.
TEST(TrainingRowsTest, LastChunksThatAreSpared) {
  std::vector<SoftwareStack> stacks = Stacks();
  const auto layers = [&](const char* count, const char* pp) {
    const TrainingRow row = Judge(
        {{"layers", count}, {"gpus", pp}, {"pp", pp}, {"global_batch", "16"}}, "known", stacks);
    EXPECT_EQ(row.refused, "") << count;
    return row.mapping.layers;
  };
  EXPECT_THAT(layers("61", "8"), ElementsAre(8, 8, 8, 8, 8, 7, 7, 7));
  stacks[0].releases[0].spares_last_chunk = true;
  EXPECT_THAT(layers("61", "8"), ElementsAre(8, 8, 8, 8, 8, 8, 8, 5));
  EXPECT_THAT(layers("33", "8"), ElementsAre(5, 4, 4, 4, 4, 4, 4, 4));
  EXPECT_THAT(layers("32", "8"), IsEmpty());
}

// Under ZeRO 3 software that offloads layers recomputes none that would not fit.
TEST(TrainingRowsTest, LayersOnTheHost) {
  std::vector<SoftwareStack> stacks = Stacks();
  stacks[0].releases[0].offloads_layers = true;
  for (const auto& [sharding, recompute] :
       {std::pair("FSDP", Recompute::kNone), std::pair("ZeRO-1", Recompute::kFull)}) {
    TrainingRow row = Judge({{"sharding", sharding}, {"dp", "16"}}, "known", stacks);
    AssumeRecomputation(row, Bytes(1));
    EXPECT_EQ(row.mapping.recompute, recompute) << sharding;
    EXPECT_THAT(row.notes,
                testing::Contains(HasSubstr(recompute == Recompute::kNone ? "in the host's memory"
                                                                          : "full recomputation")));
  }
}

// Megatron Core's modules of recomputation, of which one has the word "layer" in it, as people and
// columns write them.
TEST(TrainingRowsTest, ModulesThatAreRecomputed) {
  const auto row = [](const char* word, const char* model = "experts", Cells others = {}) {
    Cells cells = {{"recompute", word}, {"micro_batch", "1"}};
    cells.insert(cells.end(), others.begin(), others.end());
    const TrainingRow read = Judge(cells, model);
    EXPECT_EQ(read.refused, "") << word;
    return read;
  };
  const std::pair<const char*, const char*> words[] = {
      {"moe_act, layernorm", "moe_act+layernorm"},
      {"selective: moe act", "moe_act"},
      {"selective (core_attn, moe)", "core_attn+moe"},
      {"selective: moe", "moe"},
      {"selective: moe layer", "moe"},
      {"selective, layernorm, no moe_act", "layernorm"},
      {"attention + layer norm", "core_attn+layernorm"}};
  for (const auto& [word, modules] : words) {
    const TrainingRow read = row(word);
    EXPECT_EQ(read.mapping.recompute, Recompute::kModules) << word;
    EXPECT_EQ(ToString(read.mapping.modules), modules) << word;
    EXPECT_THAT(read.notes, IsEmpty()) << word;
  }
  EXPECT_EQ(ToString(row("selective: attention and mlp", "known").mapping.modules),
            "core_attn+mlp");
  EXPECT_EQ(row("selective (core_attn)").mapping.recompute, Recompute::kSelective);
  // A column of their own, as trainers' options have it.
  EXPECT_EQ(
      ToString(row("selective", "experts", {{"recompute_modules", "moe_act moe"}}).mapping.modules),
      "moe");
  EXPECT_EQ(ToString(row("", "known", {{"recompute_modules", "[\"mlp\"]"}}).mapping.modules),
            "mlp");
  const TrainingRow full = row("full", "known", {{"recompute_modules", "mlp"}});
  EXPECT_EQ(full.mapping.recompute, Recompute::kFull);
  EXPECT_THAT(full.notes, ElementsAre(HasSubstr("which the row does not have")));
  const TrainingRow unknown = row("", "experts", {{"recompute_modules", "moe, gdn_norm_out"}});
  EXPECT_EQ(ToString(unknown.mapping.modules), "moe");
  EXPECT_THAT(unknown.notes, ElementsAre(HasSubstr("is called gdn")));
  // What the model has no layers of.
  const TrainingRow dense = row("selective: mla_up_proj, mlp", "known");
  EXPECT_EQ(ToString(dense.mapping.modules), "mlp");
  EXPECT_THAT(dense.notes, ElementsAre(HasSubstr("mla_up_proj: the model has none")));
  EXPECT_EQ(row("selective: mlp").mapping.recompute, Recompute::kNone);
}

// torchtitan's option by a number, of software that selects operators.
TEST(TrainingRowsTest, EverySecondLayerByItsOption) {
  const std::pair<const char*, Recompute> words[] = {
      {"selective 2", Recompute::kAlternate}, {"selective_ac_option=2", Recompute::kAlternate},
      {"selective 1", Recompute::kFull},      {"selective 3", Recompute::kFull},
      {"selective", Recompute::kOperators},   {"selective op", Recompute::kOperators}};
  for (const auto& [word, recompute] : words) {
    EXPECT_EQ(RecomputeIn(word, Recompute::kOperators), recompute) << word;
    EXPECT_EQ(RecomputeIn(word, Recompute::kSelective), Recompute::kSelective) << word;
  }
  std::vector<SoftwareStack> stacks = Stacks();
  stacks[0].releases[0].selective = Recompute::kOperators;
  const std::pair<const char*, int32_t> every[] = {{"selective 3", 3},
                                                   {"selective_ac_option=4", 4},
                                                   {"selective (every 4 layers)", 4},
                                                   {"every 3rd layer", 3},
                                                   {"selective", 0},
                                                   {"selective 2", 0},
                                                   {"full, 3 nodes", 0}};
  for (const auto& [word, number] : every) {
    const TrainingRow row = Judge({{"recompute", word}, {"micro_batch", "1"}}, "known", stacks);
    EXPECT_EQ(row.mapping.recomputed_every, number) << word;
    EXPECT_EQ(row.mapping.recompute == Recompute::kFull, number > 0 || word[0] == 'f') << word;
    EXPECT_EQ(row.refused, "") << word;
  }
}

// Blocks that have a scale each, by the names that tables have; MXFP4 by its nearest.
TEST(TrainingRowsTest, NamesOfEightBitScales) {
  std::vector<SoftwareStack> stacks = Stacks();
  stacks[0].releases[0].reduces_scales = true;
  const std::tuple<const char*, bool, bool> words[] = {{"fp8", false, true},
                                                       {"FP8-CS", false, false},
                                                       {"fp8 blockwise", true, false},
                                                       {"FP8-SC", true, false},
                                                       {"fp8_subchannel", true, false}};
  std::string text;
  for (const auto& word : words) text += RowOf(std::get<0>(word), "none", "none");
  const auto rows = RowsOf(text + RowOf("MXFP4", "none", "none"), stacks);
  for (size_t i = 0; i < std::size(words); ++i) {
    EXPECT_TRUE(rows[i].mapping.fp8);
    EXPECT_EQ(rows[i].software.promotes_forward, std::get<1>(words[i])) << i;
    EXPECT_EQ(rows[i].software.reduces_scales, std::get<2>(words[i])) << i;
  }
  EXPECT_TRUE(rows.back().mapping.nvfp4);
  EXPECT_THAT(rows.back().notes, ElementsAre(HasSubstr("NVFP4")));
}

// The order of passes, by PyTorch's names and those of publications, in a column or a note.
TEST(TrainingRowsTest, SchedulesAreNamed) {
  const TempFolder folder;
  const std::string path = folder.path() + "/schedule.csv";
  const auto row = [](const char* vp, const char* schedule, const char* note) {
    return fmt::format("known,8,H100,4,{},1,32,BF16,Composer,1,{},{}\n", vp, schedule, note);
  };
  std::ofstream(path) << "model,gpus,gpu,pp,vp,micro_batch,global_batch,precision,framework,step_s,"
                         "pipeline_parallel_schedule,note\n"
                      << row("", "GPipe", "") << row("", "", "zero bubble (ZB-H1)")
                      << row("", "DualPipe", "") << row("", "ZBVZeroBubble", "")
                      << row("2", "InterleavedZeroBubble", "") << row("", "Interleaved1F1B", "")
                      << row("2", "zero-bubble", "") << row("", "1F1B", "not interleaved")
                      << row("", "", "DualPipeV");
  const auto rows = LoadTrainingRows(path, KnownModel, Stacks());
  ASSERT_TRUE(rows.ok()) << rows.status();
  const std::tuple<ScheduleKind, int, const char*> expected[] = {
      {ScheduleKind::kGPipe, 1, ""},        {ScheduleKind::kZeroBubbleH1, 1, ""},
      {ScheduleKind::kDualPipe, 1, ""},     {ScheduleKind::kZeroBubbleV, 2, ""},
      {ScheduleKind::kZeroBubbleH1, 2, ""}, {ScheduleKind::k1F1B, 2, "two chunks a stage"},
      {ScheduleKind::kZeroBubbleH1, 2, ""}, {ScheduleKind::k1F1B, 1, ""},
      {ScheduleKind::kDualPipeV, 2, ""}};
  for (size_t i = 0; i < std::size(expected); ++i) {
    const auto& [schedule, chunks, note] = expected[i];
    EXPECT_EQ((*rows)[i].refused, "") << i;
    EXPECT_EQ((*rows)[i].mapping.schedule, schedule) << i;
    EXPECT_EQ((*rows)[i].mapping.chunks, chunks) << i;
    if (*note == 0) {
      EXPECT_THAT((*rows)[i].notes, IsEmpty()) << i;
    } else {
      EXPECT_THAT((*rows)[i].notes, ElementsAre(HasSubstr(note))) << i;
    }
  }
}

// torchtitan's columns of copies and shards, and Megatron Core's option.
TEST(TrainingRowsTest, ColumnsOfCopiesAndShards) {
  const TempFolder folder;
  const std::string path = folder.path() + "/mesh.csv";
  const std::string row = "known,16,H100,1,1,16,BF16,";
  std::ofstream(path) << "model,gpus,gpu,tp,micro_batch,global_batch,precision,sharding,framework,"
                         "step_s,data_parallel_replicate_degree,data_parallel_shard_degree,"
                         "num_distributed_optimizer_instances\n"
                      << row << "FSDP,Composer,1,2,8,\n"
                      << row << "FSDP,Composer,1,4,-1,\n"
                      << row << "FSDP,Composer,1,1,-1,\n"
                      << row << ",Composer,1,16,1,,\n"
                      << row << "distributed optimizer,Composer,1,,,2\n"
                      << row << "FSDP,Composer,1,3,8,\n"
                      << row << "optim_grads_params,Composer,1,,,\n";
  const auto rows = LoadTrainingRows(path, KnownModel, Stacks());
  ASSERT_TRUE(rows.ok()) << rows.status();
  const std::tuple<int, int> expected[] = {{3, 8}, {3, 4}, {3, 0}, {0, 0}, {1, 8}};
  for (size_t i = 0; i < std::size(expected); ++i) {
    const ParallelMapping& m = (*rows)[i].mapping;
    EXPECT_EQ((*rows)[i].refused, "") << i;
    EXPECT_EQ(std::tuple(m.zero, m.hybrid), expected[i]) << i;
  }
  EXPECT_THAT((*rows)[5].refused, HasSubstr("3 x 8 is 24, but there are 16"));
  EXPECT_EQ((*rows)[6].mapping.zero, 3);
  const auto noted = RowsOf(
      "known,,,,,,,,16,H100,8,1,1,16,1,,,1,,16,BF16,ZeRO-1,none,Composer,0,1,,,"
      "--num-distributed-optimizer-instances 2\n",
      Stacks());
  EXPECT_EQ(std::tuple(noted[0].mapping.zero, noted[0].mapping.hybrid), std::tuple(1, 8));
}

// By notes, as DeepSpeed's and Megatron's options are written, and by columns.
TEST(TrainingRowsTest, HowInputsAreKept) {
  std::vector<SoftwareStack> stacks = Stacks();
  StackRelease old, later;
  old.divides_on_host = old.pageable_inputs = later.pageable_inputs = true;
  stacks.push_back({"deepspeed", {"deepspeed"}, {old}});
  stacks.push_back({"megatron", {"megatron"}, {later}});
  const auto row = [](const char* recompute, const char* software, const char* note) {
    return std::string("known,,,,,,,,16,V100,8,2,1,8,1,,,1,,16,BF16,ZeRO-1,") + recompute + "," +
           software + ",0,1,,,\"" + note + "\"\n";
  };
  const auto rows = RowsOf(
      row("full", "DeepSpeed", "partition-activations") +
          row("full", "DeepSpeed", "checkpoint every 2 layers, checkpoints in CPU memory") +
          row("full", "Megatron", "checkpoint every 4 layers; checkpoints in CPU memory") +
          row("full", "DeepSpeed", "split-transformers, checkpoint every 2 layers") +
          row("full", "Megatron", "--distribute-saved-activations --recompute-num-layers 2") +
          row("full", "Megatron", "partition_activations: false; cpu_checkpointing=off") +
          row("none", "Megatron", "partition-activations") +
          row("full", "NeMo", "partition-activations") +  // with sequence parallelism
          row("full", "Megatron", "recompute-method block, recompute-num-layers 3") +
          row("", "Megatron", "CPU checkpointing"),
      stacks);
  ASSERT_EQ(rows.size(), 10u);
  const auto said = [&](size_t i) {
    const ParallelMapping& m = rows[i].mapping;
    EXPECT_EQ(rows[i].refused, "");
    return std::tuple(m.recomputed_together, m.divided_inputs, m.inputs_on_host);
  };
  EXPECT_EQ(said(0), std::tuple(0, true, false));
  EXPECT_EQ(said(1), std::tuple(2, true, true));
  EXPECT_THAT(rows[1].notes, ElementsAre(HasSubstr("copied only such to the host")));
  EXPECT_EQ(said(2), std::tuple(4, false, true));
  EXPECT_EQ(said(3), std::tuple(0, false, false));
  EXPECT_EQ(said(4), std::tuple(2, true, false));
  EXPECT_EQ(said(5), std::tuple(0, false, false));
  EXPECT_EQ(said(6), std::tuple(0, false, false));
  EXPECT_THAT(rows[6].notes, ElementsAre(HasSubstr("taken to stay where they are")));
  EXPECT_EQ(said(7), std::tuple(0, false, false));
  EXPECT_THAT(rows[7].notes, ElementsAre(HasSubstr("as sequence parallelism divides them")));
  EXPECT_EQ(said(8), std::tuple(0, false, false));
  EXPECT_EQ(rows[8].mapping.recomputed_layers, 3);
  EXPECT_EQ(said(9), std::tuple(0, false, true));
  EXPECT_EQ(rows[9].mapping.recompute, Recompute::kFull);
  for (const size_t i : {0, 2, 4, 5, 8}) EXPECT_THAT(rows[i].notes, IsEmpty()) << i;
}

// Rows without a date, of software that had no experts at first: releases 2024 and 2025-04-11.
TEST(TrainingRowOptionsTest, ExpertsAreNoOlderThanTheSoftwareHasThem) {
  std::vector<SoftwareStack> stacks = Stacks();
  stacks[0].experts_since = "2025-04-11";
  stacks[0].releases.push_back(stacks[0].releases[0]);
  stacks[0].releases[1].since = "2025-04-11";
  const TrainingRow mixture = Judge({}, "experts", stacks), dense = Judge({}, "known", stacks);
  EXPECT_EQ(mixture.release, "2025-04-11");
  EXPECT_THAT(mixture.notes,
              testing::Contains("software as of 2025-04-11, when it first had mixtures of "
                                "experts, as no date is stated"));
  EXPECT_EQ(dense.release, "");
  EXPECT_EQ(Judge({{"date", "2024-12"}}, "experts", stacks).release, "");
}

// A row without a date that recomputes selectively is of software that does.
TEST(TrainingRowOptionsTest, SelectiveRecomputationIsNoOlderThanTheSoftwareHasIt) {
  std::vector<SoftwareStack> stacks = Stacks();
  stacks[0].releases.push_back(stacks[0].releases[0]);
  stacks[0].releases[0].selective = Recompute::kFull;
  stacks[0].releases[1].since = "2022";
  const TrainingRow selects = Judge({{"recompute", "selective"}}, "known", stacks);
  EXPECT_EQ(selects.release, "2022");
  EXPECT_EQ(selects.mapping.recompute, Recompute::kSelective);
  EXPECT_THAT(selects.notes, testing::Contains("software as of 2022, when it first recomputed "
                                               "selectively, as no date is stated"));
  const TrainingRow whole = Judge({{"recompute", "full"}}, "known", stacks);
  EXPECT_EQ(whole.release, "");
  const TrainingRow dated = Judge({{"recompute", "selective"}, {"date", "2021"}}, "known", stacks);
  EXPECT_EQ(dated.mapping.recompute, Recompute::kFull);
}

}  // namespace
}  // namespace foretrace
