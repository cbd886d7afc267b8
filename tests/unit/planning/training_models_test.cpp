#include "simulator/planning/mappings/training_models.h"

#include <gtest/gtest.h>

namespace foretrace {
namespace {

TransformerConfig Found(const std::string& name) {
  const auto config = TrainingModels("").Find(name);
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
  // Names that say more, and one that leaves out the only size; BLOOM has several.
  EXPECT_EQ(Found("Mixtral-8x7B-v0.1").name, "mixtral-8x7b");
  EXPECT_EQ(Found("DeepSeek-V3-671B").name, "deepseek-v3");
  EXPECT_EQ(Found("deepseek-v2-lite-chat").name, "deepseek-v2-lite");
  EXPECT_EQ(Found("grok-1").name, "grok1-314b");
  EXPECT_EQ(Found("BLOOM").layers, 0);
  const auto none = TrainingModels("").Find("strange-7b");
  ASSERT_TRUE(none.ok());
  EXPECT_FALSE(none->has_value());
}

}  // namespace
}  // namespace foretrace
