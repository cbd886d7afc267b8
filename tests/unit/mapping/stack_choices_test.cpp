#include "simulator/mapping/stack_choices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace foretrace {
namespace {

using testing::HasSubstr;

// Two releases, the second of which is also for one model alone.
SoftwareStack Nemo() {
  StackRelease first, second, own;
  first.since = "v24";
  first.source = "first";
  second.since = "v25";
  second.source = "second";
  own.since = "v25";
  own.source = "own";
  own.models = {"gpt3"};
  return {"nemo", {"nemo"}, {first, second, own}, ""};
}

TEST(StackChoicesTest, ReleasesByName) {
  const SoftwareStack stack = Nemo();
  const auto named = [&](const char* text, const char* model) {
    const auto found = ReleaseOf(stack, text, {model});
    return found.ok() ? found->release.source : std::string(found.status().message());
  };
  EXPECT_EQ(named("nemo", "llama3-8b"), "second");
  EXPECT_EQ(named("nemo", "GPT-3 175B"), "own");
  EXPECT_EQ(named("nemo@v24.11", "GPT-3 175B"), "first");
  EXPECT_EQ(named("nemo@v25.04", "llama3-8b"), "second");
  EXPECT_EQ(named("./a@b/nemo.yaml@v24.11", "llama3-8b"), "first");
  EXPECT_THAT(named("nemo@v23", "llama3-8b"), HasSubstr("begins with v24"));
  EXPECT_THAT(named("nemo@", "llama3-8b"), HasSubstr("no release behind '@'"));
  EXPECT_THAT(named("nemo@25.04", "llama3-8b"), HasSubstr("written as v24 is"));
  EXPECT_THAT(named("nemo@newest", "llama3-8b"), HasSubstr("written as v24 is"));
  EXPECT_EQ(ReleaseOf(stack, "nemo@v24.11", {"x"})->Text(), "nemo since v24");
  EXPECT_EQ(ReleaseOf({"other", {"other"}, {StackRelease()}, ""}, "other", {"x"})->Text(), "other");
}

TEST(StackChoicesTest, ShippedStacksAreFoundByName) {
  const auto found = NamedReleaseOf("composer", {"mpt-7b"});
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->stack, "composer");
  EXPECT_TRUE(found->file.ends_with("topologies/stacks/composer.yaml")) << found->file;
  const auto by_path = NamedReleaseOf(found->file, {"mpt-7b"});
  ASSERT_TRUE(by_path.ok()) << by_path.status();
  EXPECT_EQ(by_path->Text(), found->Text());
  EXPECT_THAT(std::string(NamedReleaseOf("composr@v1", {"x"}).status().message()),
              HasSubstr("did you mean composer?"));
}

TEST(StackChoicesTest, ChoicesFollowDegrees) {
  StackRelease release;
  release.sequence_parallel = release.overlap_tensor = release.chunked_tensor = true;
  release.overlap_gradients = release.ring_attention = release.balance_loss = true;
  release.gradient_bits = 16;
  release.shards = 8;
  TransformerConfig model;
  ParallelMapping alone;
  SetChoices(release, model, alone);
  ParallelMapping expected;
  expected.gradient_bytes = 2;
  EXPECT_EQ(alone, expected);
  ParallelMapping wide;
  wide.tensor = 4;
  wide.context = 2;
  wide.data = 16;
  wide.zero = 3;
  model.experts = 8;
  SetChoices(release, model, wide);
  EXPECT_TRUE(wide.sequence_parallel && wide.chunked_tensor && wide.overlap_gradients);
  EXPECT_TRUE(wide.ring && wide.balance_loss);
  EXPECT_EQ(wide.hybrid, 8);  // of 32 replicas
  wide.sequence_parallel = false;
  wide.expert = 32;
  EXPECT_THAT(SetChoices(release, model, wide), HasSubstr("parts ep32 does not divide"));
  EXPECT_EQ(wide.hybrid, 0);
  wide.expert = 1;
  EXPECT_EQ(SetChoices(release, model, wide), "");
  EXPECT_EQ(wide.zero, 3);
  release.overlap_tensor = false;
  SetChoices(release, model, wide);
  EXPECT_FALSE(wide.overlap_tensor || wide.chunked_tensor);
}

// DeepSpeed's ZeRO 2 and 3 keep and reduce gradients of bfloat16 in the model's type, with states
// alone divided in 32 bits, and of float16 there is nothing to choose.
TEST(StackChoicesTest, DividedGradients) {
  TransformerConfig model;
  model.dtype = DType::kBFloat16;
  const auto bytes = [&](const char* stack, int32_t zero) {
    const auto named = NamedReleaseOf(stack, {"llama2-7b"});
    EXPECT_TRUE(named.ok()) << named.status();
    ParallelMapping m;
    m.data = 8;
    m.zero = zero;
    SetChoices(named->release, model, m);
    return m.gradient_bytes;
  };
  for (const char* stack : {"megatron-deepspeed", "megatron-deepspeed@2022"}) {
    EXPECT_EQ(bytes(stack, 3), 2) << stack;
    EXPECT_EQ(bytes(stack, 2), 2) << stack;
    EXPECT_EQ(bytes(stack, 1), 0) << stack;
  }
  // Who sets no type of accumulation, as Megatron-DeepSpeed does, has the model's in every stage.
  for (const int32_t zero : {1, 2, 3}) EXPECT_EQ(bytes("deepspeed", zero), 2) << zero;
  EXPECT_EQ(bytes("torchtitan", 3), 0);
  model.dtype = DType::kFloat16;
  EXPECT_EQ(bytes("megatron-deepspeed", 3), 0);
}

// DeepSpeed's reductions run beside the backward pass in stage 3, in others where they are asked
// to.
TEST(StackChoicesTest, ReductionsHideFromAStageOn) {
  const auto hides = [](const StackRelease& release, int32_t zero) {
    ParallelMapping m;
    m.data = 8;
    m.zero = zero;
    SetChoices(release, TransformerConfig(), m);
    return m.overlap_gradients;
  };
  StackRelease release;
  EXPECT_FALSE(hides(release, 3));
  release.overlap_from = 3;
  EXPECT_TRUE(hides(release, 3));
  EXPECT_FALSE(hides(release, 2) || hides(release, 1) || hides(release, 0));
  release.overlap_gradients = true;
  EXPECT_TRUE(hides(release, 1));
  ParallelMapping alone;
  alone.zero = 3;
  SetChoices(release, TransformerConfig(), alone);
  EXPECT_FALSE(alone.overlap_gradients);
}

// Inputs on the host are those that are divided, with early software.
TEST(StackChoicesTest, EarlySoftwareHadDividedInputsOnTheHost) {
  StackRelease release;
  const auto fault = [&](const char* words) {
    return std::string(CheckInputsOf(release, *ParseMapping(words, 8, "test")).message());
  };
  EXPECT_EQ(fault("tp2 full offload-activations"), "");
  release.divides_on_host = true;
  EXPECT_THAT(fault("tp2 full offload-activations"), HasSubstr("partition-activations too"));
  EXPECT_THAT(fault("full offload-activations"), HasSubstr("tensor parallelism with it"));
  EXPECT_EQ(fault("tp2 full partition-activations offload-activations"), "");
  EXPECT_EQ(fault("tp2 full"), "");
}

// What is divided stays whole over a pipeline's micro-batches; nothing is divided among one.
TEST(StackChoicesTest, PipelinesKeepWeights) {
  StackRelease release;
  ParallelMapping m;
  m.data = 4;
  m.pipeline = 2;
  EXPECT_EQ(DividedAs(release, 3, m), 3);
  release.pipelines_keep_weights = true;
  EXPECT_EQ(DividedAs(release, 3, m), 1);
  EXPECT_EQ(DividedAs(release, 0, m), 0);
  m.pipeline = 1;
  EXPECT_EQ(DividedAs(release, 3, m), 3);
  m.data = 1;
  EXPECT_EQ(DividedAs(release, 3, m), 0);
}

// DualPipe where there are enough micro-batches and stages in pairs; other schedules stay.
TEST(StackChoicesTest, DualPipeWhereItCanBe) {
  StackRelease release;
  release.dual_pipe = true;
  const auto schedule = [&](const std::string& words) {
    ParallelMapping m = *ParseMapping(words, 64, "test");
    SetChoices(release, TransformerConfig(), m);
    return std::string(Name(m.schedule));
  };
  EXPECT_EQ(schedule("tp1 pp4 dp2"), "dualpipe");
  EXPECT_EQ(schedule("tp1 pp4 dp16"), "1f1b");
  EXPECT_EQ(schedule("tp1 pp4 dp16 dualpipe"), "1f1b");
  EXPECT_EQ(schedule("tp1 pp1 dp2"), "1f1b");
  EXPECT_EQ(schedule("tp1 pp2 dp2 v2"), "1f1b");
  EXPECT_EQ(schedule("tp1 pp2 dp2 zero2"), "1f1b");
  EXPECT_EQ(schedule("tp1 pp4 dp2 zb-h1"), "zb-h1");
}

// 50,257 rows: the next multiple of 128 is 50,304, of 128 x 8 it is 51,200.
TEST(StackChoicesTest, VocabulariesArePadded) {
  StackRelease release;
  release.vocabulary_multiple = 128;
  TransformerConfig model;
  model.vocabulary = 50257;
  PadVocabulary(release, 1, model);
  EXPECT_EQ(model.vocabulary, 50304);
  PadVocabulary(release, 8, model);
  EXPECT_EQ(model.vocabulary, 51200);
}

TEST(StackChoicesTest, CompiledKernels) {
  StackRelease release;
  release.eager = release.compiled_loss = true;
  release.fused_pointwise = false;
  Compile(release);
  TransformerConfig model;
  SetKernels(release, model);
  EXPECT_TRUE(release.fused_pointwise && release.compiled);
  EXPECT_FALSE(model.eager);
  EXPECT_EQ(model.loss, LossForm::kFused);
}

// Where adapters are trained, the loss that the release has for that, if it has one.
TEST(StackChoicesTest, LossesWhereAdaptersAreTrained) {
  StackRelease release;
  release.loss = LossForm::kOverwritten;
  ParallelMapping adapters;
  adapters.lora = 8;
  EXPECT_EQ(LossOf(release, adapters), LossForm::kOverwritten);
  release.adapter_loss = LossForm::kInPlace;
  EXPECT_EQ(LossOf(release, adapters), LossForm::kInPlace);
  EXPECT_EQ(LossOf(release, ParallelMapping()), LossForm::kOverwritten);
}

}  // namespace
}  // namespace foretrace
