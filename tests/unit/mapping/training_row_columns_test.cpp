// Columns of other tables, sizes of models with experts, and what notes say of losses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "simulator/mapping/training_rows.h"
#include "tests/unit/mapping/known_rows.h"

namespace foretrace {
namespace {

using testing::HasSubstr;

// Columns by the names that other tables give them.
TEST(TrainingRowsTest, ColumnsOfOtherTables) {
  const std::string path = testing::TempDir() + "/other.csv";
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

// Of latent attention beside experts: the feed-forward size of the dense layers and a head's are
// not the experts' and the keys'; another one is the experts', and said.
TEST(TrainingRowsTest, SizesOfModelsWithExperts) {
  const auto find = [](const std::string& name,
                       bool own) -> absl::StatusOr<std::optional<TransformerConfig>> {
    auto known = KnownModel(name, own);
    if (known.ok() && *known) {
      (*known)->latent = 512;
      (*known)->head_size = 192;
      (*known)->ffn = 1536;
      (*known)->dense_first = 3;
      (*known)->dense_ffn = 12288;
    }
    return known;
  };
  const std::string path = testing::TempDir() + "/experts.csv";
  std::ofstream(path) << "model,layers,ffn,head_dim,experts,topk,dense_layers,gpus,gpu,"
                         "global_batch,precision,framework,step_s\n"
                         "experts,4,12288,128,,,,8,H100,8,bf16,NeMo,1\n"
                         "experts,4,2048,,32,4,1,8,H100,8,bf16,NeMo,1\n"
                         "experts,4,,,,,0,8,H100,8,bf16,NeMo,1\n";
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

}  // namespace
}  // namespace foretrace
