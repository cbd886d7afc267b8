// Columns of other tables, sizes of models with experts, and what notes say of losses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "simulator/mapping/memory_model.h"
#include "simulator/mapping/training_rows.h"
#include "tests/support/temp_folder.h"
#include "tests/unit/mapping/known_rows.h"

namespace foretrace {
namespace {

using testing::HasSubstr;

// Columns by the names that other tables give them.
TEST(TrainingRowsTest, ColumnsOfOtherTables) {
  const TempFolder folder;
  const std::string path = folder.path() + "/other.csv";
  std::ofstream(path) << "model,gpus,gpu,tp,pp,micro_batch_size,micro_batches,global_batch_size,"
                         "seq_len,precision,framework,step_ms,max_allocated_GiB\n"
                         "known,16,H100,2,1,2,3,48,1024,bf16,NeMo,843.0,66.5\n";
  const auto rows = LoadTrainingRows(path, KnownModel, Stacks());
  ASSERT_TRUE(rows.ok()) << rows.status();
  const TrainingRow& row = rows->at(0);
  EXPECT_EQ(row.refused, "");
  EXPECT_EQ(row.mapping.micro_batch, 2);
  EXPECT_EQ(row.mapping.global_batch, 48);
  EXPECT_EQ(row.config.sequence, 1024);
  EXPECT_EQ(row.measured, SimTime::FromSeconds(0.843));
  EXPECT_EQ(row.memory_gib, 66.5);
}

// What nobody reads is said once, also where it may be why no row is judged; results are no choice.
TEST(TrainingRowsTest, ColumnsThatNobodyReads) {
  const TempFolder folder;
  const std::string path = folder.path() + "/own.csv";
  const auto first = [&](const std::string& columns, const std::string& cells) {
    std::ofstream(path) << "model,gpus,gpu,tp,global_batch,framework,precision,date," + columns +
                               "\nknown,16,H100,2,16,NeMo,bf16,2025," + cells + "\n";
    const auto rows = LoadTrainingRows(path, KnownModel, Stacks());
    EXPECT_TRUE(rows.ok()) << rows.status();
    return rows.ok() ? rows->front() : TrainingRow();
  };
  const TrainingRow row = first("step_s,MFU,lora_rank,Cpu Offload", "1,40,16,yes");
  EXPECT_EQ(row.refused, "");
  EXPECT_THAT(row.unread, testing::Contains(HasSubstr("not read: cpu_offload, lora_rank (words")));
  EXPECT_TRUE(first("step_s,mfu_pct", "1,40").unread.empty());
  EXPECT_THAT(first("step_s,whose", "0,x").refused, HasSubstr("not read: whose"));
  std::ofstream(path) << "model,gpus,gpu,tp,global_batch,time_taken\nknown,16,H100,2,16,12.5s\n";
  EXPECT_THAT(std::string(LoadTrainingRows(path, KnownModel, Stacks()).status().message()),
              HasSubstr("'tokens_per_s_per_gpu'; not read are time_taken"));
  EXPECT_EQ(first("step_s,zero", "1,3").mapping.zero, 3);
  EXPECT_EQ(first("step_s,use_distributed_optimizer", "1,true").mapping.zero, 1);
  EXPECT_EQ(first("ms/step", "1500").measured, SimTime::FromSeconds(1.5));
}

// Precision and software may have no column; which they are taken to be is noted.
TEST(TrainingRowsTest, TablesOfFewColumns) {
  const TempFolder folder;
  const std::string path = folder.path() + "/few.csv";
  std::ofstream(path) << "model,gpus,gpu,tp,global_batch,step_s\nknown,16,H100,8,16,1\n";
  const auto rows = LoadTrainingRows(path, KnownModel, Stacks());
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_EQ(rows->at(0).refused, "");
  EXPECT_THAT(rows->at(0).notes,
              testing::IsSupersetOf({HasSubstr("precision float16"), HasSubstr("framework ''")}));
}

// Degrees and sizes by trainers' arguments, tables with semicolons, lines that say nothing, and the
// same column twice.
TEST(TrainingRowsTest, TablesOfTrainers) {
  const TempFolder folder;
  const std::string path = folder.path() + "/trainers.csv";
  std::ofstream(path) << "Model Name;Num GPUs;GPU type;tensor_model_parallel_size;PP size;"
                         "Data Parallel;context_parallel;zero_stage;GBS;dtype;software;"
                         "Iteration time (ms);activation checkpointing;num_layers\n"
                         "# of 2025\n"
                         "known;16;H100;2;2;2;2;1;16;bf16;NeMo;1500;full;16\n"
                         ";;;;;;;;;;;;;\n"
                         "known;16;H100;2;2;8;2;1;16;bf16;NeMo;1500;full;16\n";
  ASSERT_TRUE(IsTrainingTable(path));
  const auto rows = LoadTrainingRows(path, KnownModel, Stacks());
  ASSERT_TRUE(rows.ok()) << rows.status();
  ASSERT_EQ(rows->size(), 2u);
  const TrainingRow& row = rows->at(0);
  EXPECT_EQ(row.refused, "");
  EXPECT_THAT(ToString(row.mapping), HasSubstr("tp2 cp2 pp2 dp2 mb1 v1 full sp zero1"));
  EXPECT_EQ(row.config.layers, 16);
  EXPECT_EQ(row.measured, SimTime::FromSeconds(1.5));
  EXPECT_THAT(rows->at(1).refused, HasSubstr("is 64, but gpus says 16"));
  EXPECT_THAT(rows->at(1).name, HasSubstr(":5"));
  std::ofstream(path) << "model,gpus,gpu,tp,tp,tp_size,global_batch,precision,framework,step_s\n"
                         "known,16,H100,,2,2.0,16,bf16,NeMo,1\n"
                         "known,16,H100,2,4,,16,bf16,NeMo,1\n"
                         "known,16,H100,2,,4,16,bf16,NeMo,1\n";
  const auto twice = LoadTrainingRows(path, KnownModel, Stacks());
  ASSERT_TRUE(twice.ok()) << twice.status();
  EXPECT_EQ(twice->at(0).refused, "");
  EXPECT_EQ(twice->at(0).mapping.tensor, 2);
  EXPECT_EQ(twice->at(1).refused, "tp '2' and tp '4' contradict one another");
  EXPECT_EQ(twice->at(2).refused, "tp '2' and tp_size '4' contradict one another");
}

// Times with units of their own, and what is none.
TEST(TrainingRowsTest, StepsInMilliseconds) {
  const TempFolder folder;
  const std::string path = folder.path() + "/steps.csv";
  std::ofstream(path) << "model,gpus,gpu,global_batch,precision,framework,Step (ms)\n"
                         "known,8,H100,8,bf16,NeMo,843 ms\n"
                         "known,8,H100,8,bf16,NeMo,0.843 s\n"
                         "known,8,H100,8,bf16,NeMo,\"1,843.5\"\n"
                         "known,8,H100,8,bf16,NeMo,OOM\n"
                         "known,8,H100,8,bf16,NeMo,843 us\n"
                         "known,8,H100,8,bf16,NeMo,inf\n"
                         "known,8,H100,8,bf16,NeMo,1e300\n"
                         "known,8,H100,8,bf16,NeMo,1e-300\n";
  const auto rows = LoadTrainingRows(path, KnownModel, Stacks());
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_EQ(rows->at(0).measured, SimTime::FromSeconds(0.843));
  EXPECT_EQ(rows->at(1).measured, SimTime::FromSeconds(0.843));
  EXPECT_EQ(rows->at(2).measured, SimTime::FromSeconds(1.8435));
  EXPECT_TRUE(rows->at(3).out_of_memory);
  EXPECT_EQ(rows->at(3).refused, "");
  EXPECT_EQ(rows->at(4).refused, "step_ms '843 us' is not a positive number");
  EXPECT_EQ(rows->at(5).refused, "step_ms 'inf' is not a positive number");
  // Beyond what a time can be.
  EXPECT_EQ(rows->at(6).refused,
            "step_ms '1e300' means a step of 1e+297 s; steps take 1e-06 to 1e+06 s");
  EXPECT_THAT(rows->at(7).refused, testing::HasSubstr("means a step of 1e-303 s"));
}

// A column's own name stands over others, wherever it is; what both say has to agree.
TEST(TrainingRowsTest, ColumnsOfTwoNames) {
  const TempFolder folder;
  const std::string path = folder.path() + "/names.csv";
  std::ofstream(path) << "model,mbs,micro_batch,gpus,gpu,global_batch,precision,framework,step_s\n"
                         "known,,2,8,H100,16,bf16,NeMo,1\n"
                         "known,2.0,2,8,H100,16,bf16,NeMo,1\n"
                         "known,4,2,8,H100,32,bf16,NeMo,1\n";
  const auto rows = LoadTrainingRows(path, KnownModel, Stacks());
  ASSERT_TRUE(rows.ok()) << rows.status();
  for (const size_t i : {0, 1}) {
    EXPECT_EQ(rows->at(i).refused, "");
    EXPECT_EQ(rows->at(i).mapping.micro_batch, 2);
  }
  EXPECT_EQ(rows->at(2).refused, "micro_batch '2' and mbs '4' contradict one another");
}

// Of latent attention beside experts: the feed-forward size of the dense layers and a head's are
// not the experts' and the keys'; another one is the experts', and said.
TEST(TrainingRowsTest, SizesOfModelsWithExperts) {
  const auto find = [](const std::string& name,
                       bool own) -> absl::StatusOr<std::optional<TransformerConfig>> {
    auto known = KnownModel(name, own);
    if (known.ok() && *known) {
      (*known)->latent = 512;
      (*known)->head_size = 192;
      (*known)->value_size = 128;
      (*known)->ffn = 1536;
      (*known)->dense_first = 3;
      (*known)->dense_ffn = 12288;
    }
    return known;
  };
  const TempFolder folder;
  const std::string path = folder.path() + "/experts.csv";
  std::ofstream(path) << "model,layers,ffn,head_dim,experts,topk,dense_layers,gpus,gpu,"
                         "global_batch,precision,framework,step_s\n"
                         "experts,4,12288,128,,,,8,H100,8,bf16,NeMo,1\n"
                         "experts,4,2048,,32,4,1,8,H100,8,bf16,NeMo,1\n"
                         "experts,4,,,,,0,8,H100,8,bf16,NeMo,1\n"
                         "experts,2,,,,,,8,H100,8,bf16,NeMo,1\n"
                         "experts,5,,,,,5,8,H100,8,bf16,NeMo,1\n";
  const auto rows = LoadTrainingRows(path, find, Stacks());
  ASSERT_TRUE(rows.ok()) << rows.status();
  const TransformerConfig &first = rows->at(0).config, &second = rows->at(1).config;
  EXPECT_EQ(first.ffn, 1536);
  EXPECT_EQ(first.head_size, 192);
  EXPECT_EQ(first.dense_first, 3);
  EXPECT_EQ(second.ffn, 2048);
  EXPECT_EQ(second.experts, 32);
  EXPECT_EQ(second.top_k, 4);
  EXPECT_EQ(second.dense_first, 1);
  EXPECT_THAT(rows->at(1).notes, testing::Contains(HasSubstr("each expert's")));
  EXPECT_EQ(rows->at(2).config.dense_first, 0);
  // Cut below its dense layers: those stay as they are.
  for (const size_t i : {3, 4}) {
    EXPECT_EQ(rows->at(i).refused, "");
    EXPECT_EQ(rows->at(i).config.experts, 0);
    EXPECT_EQ(rows->at(i).config.ffn, 12288);
    EXPECT_THAT(rows->at(i).notes, testing::Contains(HasSubstr("layers are dense")));
  }
}

// Then nothing is left that expert parallelism could divide.
TEST(TrainingRowsTest, ExpertParallelismOfCutModels) {
  const auto find = [](const std::string& name,
                       bool own) -> absl::StatusOr<std::optional<TransformerConfig>> {
    auto known = KnownModel(name, own);
    if (known.ok() && *known) (*known)->dense_first = 3, (*known)->dense_ffn = 12288;
    return known;
  };
  const TempFolder folder;
  const std::string path = folder.path() + "/cut.csv";
  std::ofstream(path) << "model,layers,dense_layers,ep,gpus,gpu,global_batch,precision,framework,"
                         "step_s\n"
                         "experts,3,,8,8,H100,8,bf16,NeMo,1\n"
                         "experts,3,1,8,8,H100,8,bf16,NeMo,1\n"
                         "experts,4,,8,8,H100,8,bf16,NeMo,1\n";
  const auto rows = LoadTrainingRows(path, find, Stacks());
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_THAT(rows->at(0).refused, HasSubstr("ep 8, but all 3 layers are dense"));
  EXPECT_EQ(rows->at(1).refused, "");
  EXPECT_EQ(rows->at(1).config.experts, 64);
  EXPECT_EQ(rows->at(2).refused, "");
}

// The loss of Megatron and its kind, where a row says that it is fused; others have their own.
TEST(TrainingRowsTest, FusedLosses) {
  const auto loss = [](const std::string& said, LossForm own) {
    std::vector<SoftwareStack> stacks = Stacks();
    stacks[0].releases[0].loss = own;
    const std::string row = "known,,,,,,,,16,H100,8,2,1,8,1,,,1,,16,BF16,ZeRO-1,none,NeMo,0,1,,,";
    return RowsOf(row + said + "\n", stacks).at(0).config.loss;
  };
  EXPECT_EQ(loss("", LossForm::kInPlace), LossForm::kInPlace);
  EXPECT_EQ(loss("fused cross entropy", LossForm::kInPlace), LossForm::kOverwritten);
  EXPECT_EQ(loss("llama_tp1_cef", LossForm::kCompiledInPlace), LossForm::kOverwritten);
  EXPECT_EQ(loss("native fused cross-entropy", LossForm::kInPlace), LossForm::kCompiledInPlace);
  EXPECT_EQ(loss("no fused cross entropy", LossForm::kInPlace), LossForm::kInPlace);
  EXPECT_EQ(loss("fused cross entropy", LossForm::kFused), LossForm::kFused);
}

// Attention that a row says is one kernel, whatever the software has by itself, and which one.
TEST(TrainingRowsTest, FusedAttention) {
  const auto row = [](const std::string& framework, const std::string& said) {
    std::vector<SoftwareStack> stacks = Stacks();
    StackRelease apart;
    stacks.push_back({"apart", {"apart"}, {apart}, ""});
    return RowsOf("known,,,,,,,,16,H100,8,1,1,16,1,,,1,,16,BF16,ZeRO-3,none," + framework +
                      ",0,1,,," + said + "\n",
                  stacks)
        .at(0);
  };
  const auto hopper = [](const TrainingRow& read) {
    const auto& slowdown = read.software.attention_slowdown;
    return slowdown.contains("GH100") ? slowdown.at("GH100") : 1;
  };
  EXPECT_FALSE(row("apart", "").config.fused_attention);
  for (const char* said : {"FlashAttention-2", "flash_attention_2", "flash attention", "FA2",
                           "attn_implementation=flash_attention_2", "FlashAttention"}) {
    EXPECT_TRUE(row("apart", said).config.fused_attention) << said;
    EXPECT_EQ(hopper(row("apart", said)), 1.75) << said;
  }
  EXPECT_TRUE(row("apart + FlashAttention-2", "").config.fused_attention);
  EXPECT_EQ(hopper(row("apart", "FlashAttention-3")), 1);
  EXPECT_EQ(hopper(row("apart", "cuDNN flash attention")), 1.07);
  EXPECT_THAT(row("apart", "FA3").notes, testing::Contains("attention fused, as the row says"));
  EXPECT_FALSE(row("apart", "no flash attention").config.fused_attention);
  // Composer's first FlashAttention takes twice as long on Ampere; the second does not.
  EXPECT_EQ(row("Composer", "").software.attention_slowdown.at("GA100"), 2);
  EXPECT_EQ(row("Composer", "FlashAttention").software.attention_slowdown.at("GA100"), 2);
  EXPECT_FALSE(row("Composer", "FlashAttention-2").software.attention_slowdown.contains("GA100"));
  EXPECT_FALSE(row("NeMo", "without flash attention").config.fused_attention);
  EXPECT_FALSE(row("NeMo", "eager attention").config.fused_attention);
  EXPECT_THAT(row("NeMo", "eager attention").notes,
              testing::Contains("attention not fused, as the row says"));
}

TEST(TrainingRowsTest, UnknownModelsAndWhatWouldHelp) {
  const TempFolder folder;
  const std::string path = folder.path() + "/unknown.csv";
  std::ofstream(path) << kHeader
                      << "strange,,,,,,,,16,H100,8,2,1,8,1,,,1,,16,BF16,,,NeMo,0,1,\n"
                         "known,,,,,,,,16,H100,8,1,1,16,1,,8,1,,16,BF16,,,NeMo,0,1,\n";
  const auto rows =
      LoadTrainingRows(path, KnownModel, Stacks(), [](const std::string&) { return "stranger"; });
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_THAT((*rows)[0].refused, HasSubstr("did you mean stranger?"));
  EXPECT_THAT((*rows)[0].refused, HasSubstr("--workloads"));
  EXPECT_THAT((*rows)[1].refused, HasSubstr("has no experts that are known"));
}

// Software that recomputes nothing but whole layers is taken to have done that.
TEST(TrainingRowsTest, NoSelectiveRecomputationBeforeItWasThere) {
  TrainingRow row = RowsOf(RowOf("BF16", "ZeRO-1", ""), Stacks()).at(0);
  row.config.fused_attention = false;
  const int64_t all = MemoryOf(row.config, row.mapping).total().count();
  const Bytes memory(all / 2), most(all * 4 / 5);
  AssumeRecomputation(row, memory);
  const Recompute with = row.mapping.recompute;
  EXPECT_NE(with, Recompute::kNone);
  row.mapping.recompute = Recompute::kNone;
  row.software.selective = Recompute::kFull;
  AssumeRecomputation(row, memory);
  EXPECT_EQ(row.mapping.recompute, Recompute::kFull);
  row.mapping.recompute = Recompute::kNone;
  AssumeRecomputation(row, most);
  EXPECT_EQ(row.mapping.recompute, Recompute::kFull);
  row.mapping.recompute = Recompute::kNone;
  row.software.selective = Recompute::kSelective;
  AssumeRecomputation(row, most);
  EXPECT_EQ(row.mapping.recompute, Recompute::kNone);
}

}  // namespace
}  // namespace foretrace
