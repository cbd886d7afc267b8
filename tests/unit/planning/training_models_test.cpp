#include "simulator/planning/mappings/training_models.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "simulator/planning/architect/architect_models.h"
#include "tests/support/temp_folder.h"

namespace foretrace {
namespace {

TransformerConfig Found(const std::string& name) {
  static const TrainingModels kModels("");
  const auto config = kModels.Find(name);
  EXPECT_TRUE(config.ok() && config->has_value()) << name;
  return config.ok() ? config->value_or(TransformerConfig()) : TransformerConfig();
}

TEST(TrainingModelsTest, NamesThatDifferFromTheFiles) {
  EXPECT_EQ(Found("Llama3.1-405B").layers, 126);
  EXPECT_EQ(Found("Llama3.1-405B").name, "Llama3.1-405B");
  EXPECT_EQ(Found("llama3-405B").layers, 126);
  EXPECT_EQ(Found("llama3-405B").name, "llama3.1-405b");
  EXPECT_EQ(Found("nemotron-340b").hidden, 18432);
  EXPECT_EQ(Found("nemotron-8b").name, "nemotron3-8b");
  EXPECT_EQ(Found("Nemotron4-22B").name, "nemotron3-22b");
  // Not gpt-oss-20b, which has experts.
  EXPECT_EQ(Found("gpt2-20b").name, "gpt3-20b");
  EXPECT_EQ(Found("gpt2-20b").experts, 0);
  // Two generations have 70 B: neither is taken, what they share is.
  const TransformerConfig either = Found("llama-70b");
  EXPECT_EQ(either.layers, 0);
  EXPECT_EQ(either.name, "llama-70b");
  EXPECT_EQ(either.family, TransformerFamily::kLlama);
  EXPECT_EQ(TrainingModels("").Find("llama3-405B", true)->value().layers, 0);
  // Names that say more, and one that leaves out the only size.
  EXPECT_EQ(Found("Mixtral-8x7B-v0.1").name, "mixtral-8x7b");
  EXPECT_EQ(Found("DeepSeek-V3-671B").name, "deepseek-v3");
  EXPECT_EQ(Found("deepseek-v2-lite-chat").name, "deepseek-v2-lite");
  EXPECT_EQ(Found("grok-1").name, "grok1-314b");
  const auto none = TrainingModels("").Find("strange-7b");
  ASSERT_TRUE(none.ok());
  EXPECT_FALSE(none->has_value());
}

// As a failed run may leave it behind.
TEST(TrainingModelsTest, AnEmptyFolderHidesNoModel) {
  const TempFolder folder;
  const auto before = std::filesystem::current_path();
  std::filesystem::create_directory(std::filesystem::path(folder.path()) / "llama3.1-8b");
  std::filesystem::current_path(folder.path());
  std::vector<std::string> notes;
  const auto found = FindWorkload("llama3.1-8b", notes);
  const std::string behind = BehindFolder("llama3.1-8b");
  const bool recording = IsRecording("llama3.1-8b");
  folder.Write("llama3.1-8b/rank0.json", "{}");
  EXPECT_EQ(BehindFolder("llama3.1-8b"), "");
  EXPECT_TRUE(IsRecording("llama3.1-8b"));
  std::filesystem::current_path(before);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(std::filesystem::path(*found).filename(), "llama3.1-8b.yaml");
  EXPECT_EQ(behind, *found);
  EXPECT_FALSE(recording);
}

// As their publishers and tables of runs write them.
TEST(TrainingModelsTest, OtherSpellings) {
  const std::pair<const char*, const char*> names[] = {
      {"bloom", "bloom-176b"},
      {"BLOOM", "bloom-176b"},
      {"bigscience/bloom", "bloom-176b"},
      {"tr11-176B-ml", "bloom-176b"},
      {"bloom-7b1", "bloom-7.1b"},
      {"tr11e-350M", "bloom-560m"},
      {"meta-llama/Llama-3.1-405B", "llama3.1-405b"},
      {"Meta-Llama-3.1-405B", "llama3.1-405b"},
      {"llama31_405b", "llama3.1-405b"},
      {"llama31_8b", "llama3.1-8b"},
      {"Llama-2-70b-hf", "llama2-70b"},
      {"mosaicml/mpt-7b", "mpt-7b"},
      {"openai/gpt-oss-20b", "gpt-oss-20b"},
      {"deepseek v3 671B", "deepseek-v3"},
      {"deepseekv3-671b", "deepseek-v3"},
      {"gpt-1B3", "gpt3-1.3b"},
      {"gpt3-126m", "gpt3-125m"},
      {"GPT2-XL", "gpt2-1.5b"},
      {"MT-NLG 530B", "turing-530b"},
      {"Llama-4-Scout-17B-16E", "llama4-scout"},
      {"Qwen/Qwen3-30B-A3B-Base", "qwen3-30b-a3b"},
      {"mistralai/Mixtral-8x22B-v0.1", "mixtral-8x22b"},
      {"DSv3", "deepseek-v3"},
      {"deepseek-v3-671b", "deepseek-v3"},
      {"llama4-17bx16e", "llama4-scout"},
      {"llama4 17Bx128E", "llama4-maverick"},
      {"deepseek-16b", "deepseek-moe-16b"},
      {"facebook/opt-6.7b", "opt-6.7b"},
      {"google/gemma-2-27b", "gemma2-27b"},
      {"gemma-7b", "gemma-7b"},
      {"Phi-4", "phi4-14b"},
      {"Phi-3-mini-4k-instruct", "phi3-mini"},
      {"llama-65b", "llama-65b"},
      {"llama-30b", "llama-33b"},
      {"Qwen2-72B", "qwen2.5-72b"},
      {"Qwen1.5-72B-Chat", "qwen1.5-72b"},
      {"moonshotai/Kimi-K2-Base", "kimi-k2"},
      {"GLM-4.5-355B-A32B", "glm-4.5"},
      {"dbrx", "dbrx-132b"},
  };
  for (const auto& [name, file] : names) EXPECT_EQ(Found(name).name, file) << name;
  EXPECT_EQ(Found("Mixtral 8\xC3\x97"
                  "7B")
                .experts,
            8);
  EXPECT_EQ(Found("phi-4-mini").hidden, 3072);
  EXPECT_EQ(Found("GLM-4.5-Air").layers, 46);
  // Two sizes, of which none is said.
  EXPECT_FALSE(TrainingModels("").Find("gpt-oss")->has_value());
  // Not BLOOM, nor DeepSeek-R1, nor of other sizes.
  EXPECT_EQ(Found("mpt-13b").name, "mpt-13b");
  EXPECT_EQ(Found("mpt-1.3b").name, "mpt-1b");
  EXPECT_EQ(Found("bloom-17b").layers, 0);
  EXPECT_EQ(Found("bloom-13b").layers, 0);
  EXPECT_FALSE(TrainingModels("").Find("deepseek-r1-distill-llama-8b")->has_value());
}

// A model of 16 billion parameters is not the one of 671 that the rest of its name is.
TEST(TrainingModelsTest, SizesThatContradict) {
  EXPECT_EQ(Found("deepseek-v3-16b").name, "deepseek-v2-lite");
  EXPECT_FALSE(TrainingModels("").Find("deepseek-v3-70b")->has_value());
  EXPECT_FALSE(TrainingModels("").Find("kimi-k2-8b")->has_value());
  EXPECT_EQ(Found("llama4-scout-17b").name, "llama4-scout");  // of a token
}

TEST(TrainingModelsTest, WhatUnknownNamesWereMeantToBe) {
  const TrainingModels models("");
  EXPECT_EQ(models.Meant("gpt-oss"), "gpt-oss-120b or gpt-oss-20b");
  EXPECT_EQ(models.Meant("mixtral-8x23b"), "mixtral-8x22b");
  EXPECT_EQ(models.Meant("strange-7b"), "");
  EXPECT_EQ(models.Meant("Qwen-72B"), "qwen1.5-72b or qwen2.5-72b");
  EXPECT_EQ(models.Meant("llama-70b"), "llama2-70b or llama3.1-70b or llama3.3-70b or llama3-70b");
}

// One place resolves the arguments of all commands.
TEST(TrainingModelsTest, WorkloadsOfCommands) {
  std::vector<std::string> notes;
  const auto found = [&](const std::string& name) {
    const auto file = FindWorkload(name, notes);
    return file.ok() ? *file : std::string(file.status().message());
  };
  EXPECT_TRUE(found("llama3-8b").ends_with("traces/workloads/llama3-8b.yaml"));
  EXPECT_TRUE(found("Llama3-8B").ends_with("/llama3-8b.yaml"));
  EXPECT_TRUE(notes.empty());
  EXPECT_TRUE(found("meta-llama/Llama-3.1-405B").ends_with("/llama3.1-405b.yaml"));
  EXPECT_TRUE(found("bloom").ends_with("/bloom-176b.yaml"));
  EXPECT_EQ(notes, (std::vector<std::string>{
                       "workload meta-llama/Llama-3.1-405B: taken to be llama3.1-405b",
                       "workload bloom: taken to be bloom-176b"}));
  // Files are meant where a file is written.
  EXPECT_EQ(found("nowhere/llama3-8b.yaml"), "nowhere/llama3-8b.yaml");
  EXPECT_NE(found("bloom.yaml").find("there is no such file"), std::string::npos);
  EXPECT_EQ(found("meta-llama/Strange-9B"), "meta-llama/Strange-9B");
  // Two generations have 70 B.
  EXPECT_NE(found("llama-70b").find("did you mean llama2-70b or "), std::string::npos);
}

}  // namespace
}  // namespace foretrace
