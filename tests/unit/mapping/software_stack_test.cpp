#include "simulator/mapping/software_stack.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "simulator/base/shipped.h"
#include "simulator/hardware/accelerator_file.h"
#include "simulator/mapping/stack_choices.h"
#include "tests/support/temp_folder.h"

namespace foretrace {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string Write(const std::string& text) {
  static const TempFolder folder;
  return folder.Write("stack.yaml", text);
}

TEST(SoftwareStackTest, TheLastReleaseThatIsNotLater) {
  const auto stack = LoadSoftwareStack(
      Write("name: a\nframeworks: [Megatron]\nreleases:\n  - source: x\n    dropout: true\n"
            "  - since: '2022'\n    source: y\n    overlap_tensor: true\n    selective: "
            "operators\n"));
  ASSERT_TRUE(stack.ok()) << stack.status();
  EXPECT_TRUE(stack->At("", {""}).dropout);
  EXPECT_TRUE(stack->At("2021-12-31", {""}).dropout);
  EXPECT_TRUE(stack->At("2022", {""}).overlap_tensor);
  EXPECT_TRUE(stack->At("2022-05", {""}).overlap_tensor);
  EXPECT_EQ(stack->At("2023", {""}).selective, Recompute::kOperators);
}

TEST(SoftwareStackTest, RunsWithoutADate) {
  const auto stack = LoadSoftwareStack(
      Write("name: a\nframeworks: [x]\nundated: '2022'\nreleases:\n  - source: x\n"
            "  - since: '2022'\n    source: y\n  - since: '2023'\n    source: z\n"));
  ASSERT_TRUE(stack.ok()) << stack.status();
  EXPECT_EQ(stack->At("", {""}).source, "y");
  EXPECT_EQ(stack->At("2021", {""}).source, "x");
  EXPECT_EQ(stack->At("2024", {""}).source, "z");
}

// "v25.02", "25.02" and dates of the same time.
TEST(SoftwareStackTest, VersionsByYearAndMonthAreDates) {
  const auto stack = LoadSoftwareStack(
      Write("name: a\nframeworks: [x]\nreleases:\n  - source: x\n  - since: v24.11\n    source: "
            "y\n  - since: v25.02\n    source: z\n"));
  ASSERT_TRUE(stack.ok()) << stack.status();
  EXPECT_EQ(stack->At("v24.11.1", {""}).source, "y");
  EXPECT_EQ(stack->At("24.12", {""}).source, "y");
  EXPECT_EQ(stack->At("25.02.01", {""}).source, "z");
  EXPECT_EQ(stack->At("2025-01-07", {""}).source, "y");
  EXPECT_EQ(stack->At("2025-06", {""}).source, "z");
  EXPECT_EQ(stack->At("2024-06", {""}).source, "x");
}

TEST(SoftwareStackTest, RecipesOfModels) {
  const auto stack = LoadSoftwareStack(
      Write("name: a\nframeworks: [x]\nreleases:\n  - source: s\n"
            "  - since: v24.11\n    models: [GPT-3, grok]\n    source: t\n    dropout: true\n"
            "  - since: v24.11\n    models: [grok-1 x]\n    source: u\n    packed_document: 200\n"
            "  - since: v25\n    source: v\n    zero: 3\n    shards: 128\n"));
  ASSERT_TRUE(stack.ok()) << stack.status();
  EXPECT_EQ(stack->At("v25.01", {"gpt3-175B"}).shards, 128);
  EXPECT_EQ(stack->At("v24.11.1", {"gpt3-175B"}).shards, 0);
  EXPECT_EQ(stack->At("v24.11.1", {"gpt3-175B"}).source, "t");
  EXPECT_EQ(stack->At("v24.11.1", {"grok1-314B"}).source, "t");
  EXPECT_EQ(stack->At("v24.11.1", {"Grok-1_X"}).packed_document, 200);
  EXPECT_EQ(stack->At("v24.11.1", {"llama3-8B"}).source, "s");
  EXPECT_EQ(stack->At("v25.01", {"gpt3-175B"}).source, "v");
  EXPECT_EQ(stack->At("", {"gpt3-175B"}).source, "s");
  EXPECT_THAT(LoadSoftwareStack(
                  Write("name: a\nframeworks: [x]\nreleases:\n  - source: s\n    models: [gpt]\n"))
                  .status()
                  .message(),
              HasSubstr("the first release must be for all models"));
  EXPECT_THAT(LoadSoftwareStack(Write("name: a\nframeworks: [x]\nreleases:\n  - source: s\n"
                                      "  - since: '1'\n    source: t\n  - since: '1'\n"
                                      "    source: u\n"))
                  .status()
                  .message(),
              HasSubstr("releases must be in order"));
}

// Recipes of devices, of models with experts, and of both; they begin as the release for all does.
TEST(SoftwareStackTest, RecipesOfDevicesAndOfExperts) {
  const auto stack = LoadSoftwareStack(
      Write("name: a\nframeworks: [x]\nreleases:\n  - source: s\n    dropout: true\n"
            "    gradient_bits: 16\n    attention_slowdown: {GH100: 1.07}\n"
            "  - since: v25\n    as_all: true\n    with_experts: true\n    source: t\n"
            "    dispatch: hybridep\n    recompute: mla_up_proj+moe_act\n"
            "  - since: v25\n    as_all: true\n    devices: [gb]\n    models: [qwen3]\n"
            "    source: u\n    dropout: false\n    fused_experts: [GB100]\n"
            "  - since: v26\n    source: v\n"));
  ASSERT_TRUE(stack.ok()) << stack.status();
  EXPECT_EQ(stack->At("v25", {"qwen3-8b", false, "h100-sxm5-80gb"}).source, "s");
  EXPECT_EQ(stack->At("v25", {"qwen3-30b-a3b", true, "h100-sxm5-80gb"}).source, "t");
  EXPECT_EQ(stack->At("v25", {"qwen3-30b-a3b", true, "gb200"}).source, "u");
  EXPECT_EQ(stack->At("v25", {"llama3-8b", false, "gb200"}).source, "s");
  EXPECT_EQ(stack->At("v25", {"qwen3-30b-a3b", true, ""}).source, "t");
  EXPECT_EQ(stack->At("v26", {"qwen3-30b-a3b", true, "gb200"}).source, "v");
  const StackRelease& experts = stack->At("v25", {"mixtral", true});
  EXPECT_TRUE(experts.dropout);
  EXPECT_EQ(experts.gradient_bits, 16);
  EXPECT_EQ(experts.attention_slowdown.at("GH100"), 1.07);
  EXPECT_EQ(experts.dispatch, ExpertDispatch::kHybridEp);
  EXPECT_EQ(experts.recompute, Recompute::kModules);
  EXPECT_EQ(ToString(experts.modules), "moe_act+mla_up_proj");
  const StackRelease& device = stack->At("v25", {"qwen3-30b-a3b", true, "gb300"});
  EXPECT_FALSE(device.dropout);
  EXPECT_EQ(device.dispatch, ExpertDispatch::kAllToAll);
  ClusterParameters cluster;
  SetCluster(device, "GB100", cluster);
  EXPECT_TRUE(cluster.forms.fused_experts);
  SetCluster(device, "GH100", cluster);
  EXPECT_FALSE(cluster.forms.fused_experts);
  EXPECT_EQ(stack->At("v26", {"x"}).gradient_bits, 0);  // a release says all of its own
  const auto status = [](const std::string& line) {
    return std::string(
        LoadSoftwareStack(Write("name: a\nframeworks: [x]\nreleases:\n  - source: s\n    " + line))
            .status()
            .message());
  };
  EXPECT_THAT(status("as_all: true\n"), HasSubstr("no release before is for all"));
  EXPECT_THAT(status("devices: [gb]\n"), HasSubstr("the first release must be for all"));
  EXPECT_THAT(status("with_experts: true\n"), HasSubstr("the first release must be for all"));
  EXPECT_THAT(status("recompute: mlp+mlp\n"), HasSubstr("recompute"));
}

TEST(SoftwareStackTest, AttentionKernelsByChip) {
  const auto stack = LoadSoftwareStack(
      Write("name: a\nframeworks: [x]\nreleases:\n  - source: s\n    fused_pointwise: false\n"
            "    attention_slowdown: {GH100: 1.75}\n    attention_slowdown_depth: 128\n"
            "    recorded_losses: 2\n    vocabulary_multiple: 128\n"));
  ASSERT_TRUE(stack.ok()) << stack.status();
  EXPECT_EQ(stack->At("", {""}).attention_slowdown.at("GH100"), 1.75);
  EXPECT_EQ(stack->At("", {""}).attention_slowdown.size(), 1u);
  EXPECT_EQ(stack->At("", {""}).attention_slowdown_depth, 128);
  EXPECT_EQ(stack->At("", {""}).recorded_losses, 2);
  EXPECT_EQ(stack->At("", {""}).vocabulary_multiple, 128);
  EXPECT_FALSE(stack->At("", {""}).fused_pointwise);
  EXPECT_FALSE(LoadSoftwareStack(Write("name: a\nframeworks: [x]\nreleases:\n  - source: s\n"
                                       "    attention_slowdown: {GH100: fast}\n"))
                   .ok());
}

// Kernels that go through the tiles of all experts are compiled for some chips alone.
TEST(SoftwareStackTest, GroupedExpertsByChip) {
  const auto stack = LoadSoftwareStack(Write(
      "name: a\nframeworks: [x]\nreleases:\n  - source: s\n    grouped_experts: [GH100, GB100]\n"));
  ASSERT_TRUE(stack.ok()) << stack.status();
  for (const auto& [chip, grouped] :
       {std::pair{"GH100", true}, {"GB100", true}, {"GA100", false}, {"", false}}) {
    ClusterParameters cluster;
    SetCluster(stack->At("", {""}), chip, cluster);
    EXPECT_EQ(cluster.forms.grouped_experts, grouped) << chip;
  }
}

// What is compared with the dates of releases, models and devices is one, and no version.
TEST(SoftwareStackTest, DatesOfAStack) {
  const auto status = [](const std::string& key, const std::string& date) {
    return LoadSoftwareStack(Write("name: a\nframeworks: [x]\n" + key + ": " + date +
                                   "\nreleases:\n  - source: s\n"))
        .status();
  };
  for (const std::string key : {"experts_since", "undated"}) {
    for (const char* date : {"2025", "2025-04", "'2025-04-11'"}) {
      EXPECT_TRUE(status(key, date).ok()) << status(key, date);
    }
    for (const char* none : {"v25.04", "25.04", "20.01", "2025-13", "soon", "11.04.2025"}) {
      EXPECT_THAT(std::string(status(key, none).message()),
                  HasSubstr("key '" + key + "': no date ('2025', '2025-04', '2025-04-11')"))
          << none;
    }
  }
}

// Formats have whole bytes: 9 to 15 bits would be read as 8.
TEST(SoftwareStackTest, BitsOfFormats) {
  const auto stack = [](const std::string& line) {
    return LoadSoftwareStack(
        Write("name: a\nframeworks: [x]\nreleases:\n  - source: s\n    " + line + "\n"));
  };
  for (const int bits : {8, 16}) {
    const auto read = stack("moment_bits: " + std::to_string(bits));
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(read->At("", {""}).moment_bits, bits);
  }
  for (const int bits : {9, 12, 15}) {
    EXPECT_THAT(stack("moment_bits: " + std::to_string(bits)).status().message(),
                AllOf(HasSubstr("stack.yaml"), HasSubstr("releases[0].moment_bits"),
                      HasSubstr(std::to_string(bits) + " is not one of 8, 16")));
  }
  EXPECT_THAT(stack("moment_bits: 32").status().message(), HasSubstr("allowed range 8 to 16"));
  EXPECT_THAT(stack("moment_bits: 8.5").status().message(), HasSubstr("must be an integer"));
  EXPECT_EQ(stack("gradient_bits: 32")->At("", {""}).gradient_bits, 32);
  EXPECT_THAT(stack("gradient_bits: 24").status().message(), HasSubstr("24 is not one of 16, 32"));
}

TEST(SoftwareStackTest, Losses) {
  const auto stack = LoadSoftwareStack(
      Write("name: a\nframeworks: [x]\nreleases:\n  - source: s\n    loss: stepwise\n"
            "    adapter_loss: in_place\n    compiled_loss: true\n    eager: true\n"));
  ASSERT_TRUE(stack.ok()) << stack.status();
  EXPECT_EQ(stack->At("", {""}).loss, LossForm::kStepwise);
  EXPECT_EQ(stack->At("", {""}).adapter_loss, LossForm::kInPlace);
  EXPECT_TRUE(stack->At("", {""}).compiled_loss);
  EXPECT_TRUE(stack->At("", {""}).eager);
  EXPECT_FALSE(LoadSoftwareStack(Write("name: a\nframeworks: [x]\nreleases:\n  - source: s\n"
                                       "    loss: slow\n"))
                   .ok());
}

TEST(SoftwareStackTest, TheFirstWordDecidesThenTheLongest) {
  const SoftwareStack stacks[] = {
      {"lm", {"megatron-lm"}, {}}, {"ds", {"deepspeed", "megatron"}, {}}, {"nemo", {"nemo"}, {}}};
  EXPECT_EQ(FindStack(stacks, "Megatron-LM 3D")->name, "lm");
  EXPECT_EQ(FindStack(stacks, "Megatron-DeepSpeed")->name, "ds");
  EXPECT_EQ(FindStack(stacks, "NeMo (Megatron-LM)")->name, "nemo");
  EXPECT_EQ(FindStack(stacks, "abacus"), nullptr);
}

// What others are built on is found where none of them is.
TEST(SoftwareStackTest, GenericStacksComeLast) {
  SoftwareStack generic{"pytorch", {"pytorch"}, {}};
  generic.generic = true;
  const SoftwareStack stacks[] = {generic, {"nemo", {"nemo"}, {}}};
  EXPECT_EQ(FindStack(stacks, "PyTorch 2.4 NeMo")->name, "nemo");
  EXPECT_EQ(FindStack(stacks, "PyTorch FSDP")->name, "pytorch");
  EXPECT_EQ(FindStack(stacks, "JAX"), nullptr);
}

// What has the name of what it is part of before its own.
TEST(SoftwareStackTest, SpecificStacksComeFirst) {
  const auto stacks = LoadSoftwareStacks();
  ASSERT_TRUE(stacks.ok()) << stacks.status();
  for (const char* framework : {"NeMo Megatron Bridge", "NVIDIA-NeMo/Megatron-Bridge",
                                "Megatron-Bridge", "NeMo (Megatron Bridge 0.2)"}) {
    EXPECT_EQ(FindStack(*stacks, framework)->name, "megatron-bridge") << framework;
  }
  EXPECT_EQ(FindStack(*stacks, "NeMo (Megatron-LM)")->name, "nemo");
}

TEST(SoftwareStackTest, ErrorsNameTheFault) {
  const auto fault = [](const char* text) {
    return std::string(LoadSoftwareStack(Write(text)).status().message());
  };
  EXPECT_THAT(fault("name: a\nframeworks: [x]\nreleases: []\n"), HasSubstr("releases"));
  EXPECT_THAT(fault("name: a\nframeworks: [x]\nreleases:\n  - {source: s, colour: 1}\n"),
              HasSubstr("colour"));
  EXPECT_THAT(fault("name: a\nframeworks: [x]\nreleases:\n  - {source: s, since: '2023'}\n  - "
                    "{source: s, since: '2022'}\n"),
              HasSubstr("in order"));
}

TEST(SoftwareStackTest, ShippedOnesAreRead) {
  const auto stacks = LoadSoftwareStacks();
  ASSERT_TRUE(stacks.ok()) << stacks.status();
  for (const char* framework :
       {"NeMo", "Megatron-LM", "Megatron-DeepSpeed 3D", "Composer FSDP", "torchtitan", "PaxML"}) {
    EXPECT_NE(FindStack(*stacks, framework), nullptr) << framework;
  }
  for (const auto& [framework, stack] :
       {std::pair("Megatron-Core 0.12", "megatron-lm"),
        std::pair("MCore", "megatron-lm"),
        std::pair("NeMo (Megatron Core 0.12)", "nemo"),
        std::pair("Megatron-DeepSpeed", "megatron-deepspeed"),
        std::pair("NVIDIA Megatron Bridge 0.2", "megatron-bridge"),
        std::pair("MosaicML LLM Foundry", "composer"),
        std::pair("Megatron-DeepSpeed 3D (1.1.5)", "megatron-deepspeed-1.1.5"),
        std::pair("HF Trainer with DeepSpeed", "deepspeed"),
        std::pair("MaxText", "maxtext"),
        std::pair("JAX MaxText", "maxtext"),
        std::pair("JAX (PaxML)", "paxml"),
        std::pair("JAX", "jax"),
        std::pair("Levanter", "levanter"),
        std::pair("DeepSpeed 0.14", "deepspeed"),
        std::pair("nanotron", "nanotron"),
        std::pair("GPT-NeoX (DeepSpeed)", "gpt-neox"),
        std::pair("LLaMA-Factory", "llama-factory"),
        std::pair("Lightning", "pytorch"),
        std::pair("LitGPT", "litgpt"),
        std::pair("Colossal-AI", "colossalai"),
        std::pair("torchtune", "torchtune"),
        std::pair("OLMo-core", "olmo-core"),
        std::pair("NeMo AutoModel", "nemo-automodel"),
        std::pair("NeMo-RL", "nemo-automodel"),
        std::pair("NeMo 2", "nemo"),
        std::pair("Megatron Core", "megatron-lm")}) {
    const SoftwareStack* found = FindStack(*stacks, framework);
    ASSERT_NE(found, nullptr) << framework;
    EXPECT_EQ(found->name, stack) << framework;
  }
}

// What trains by DeepSpeed or by PyTorch, as its division is called; FULL_SHARD is PyTorch's,
// whatever else it is called.
TEST(SoftwareStackTest, ZeroIsDeepSpeeds) {
  const auto stacks = LoadSoftwareStacks();
  ASSERT_TRUE(stacks.ok()) << stacks.status();
  for (const char* framework : {"Transformers", "HF Trainer", "Accelerate", "Lightning"}) {
    EXPECT_EQ(FindStack(*stacks, framework, "ZeRO-3")->name, "deepspeed") << framework;
    EXPECT_EQ(FindStack(*stacks, framework, "DeepSpeed stage 2")->name, "deepspeed") << framework;
    EXPECT_EQ(FindStack(*stacks, framework, "FSDP")->name, "pytorch") << framework;
    EXPECT_EQ(FindStack(*stacks, framework, "FSDP FULL_SHARD (ZeRO-3)")->name, "pytorch");
    EXPECT_EQ(FindStack(*stacks, framework)->name, "pytorch") << framework;
  }
  EXPECT_EQ(FindStack(*stacks, "Axolotl", "ZeRO-3")->name, "axolotl");
  EXPECT_EQ(FindStack(*stacks, "Axolotl (DeepSpeed)")->name, "axolotl");
  EXPECT_EQ(FindStack(*stacks, "Axolotl", "FSDP")->name, "pytorch");
  EXPECT_EQ(FindStack(*stacks, "Hugging Face nanotron", "ZeRO-1")->name, "nanotron");
  EXPECT_EQ(FindStack(*stacks, "PyTorch", "ZeRO-3")->name, "pytorch");
  EXPECT_EQ(FindStack(*stacks, "torchtitan", "ZeRO-3")->name, "torchtitan");
}

// DeepSpeed's own models have neither tensor nor pipeline parallelism.
TEST(SoftwareStackTest, ModelParallelRunsAreAnothers) {
  const auto stacks = LoadSoftwareStacks();
  ASSERT_TRUE(stacks.ok()) << stacks.status();
  const SoftwareStack* found = FindStack(*stacks, "DeepSpeed");
  EXPECT_EQ(ForModelParallel(*stacks, found)->name, "megatron-deepspeed");
  const SoftwareStack* other = FindStack(*stacks, "NeMo");
  EXPECT_EQ(ForModelParallel(*stacks, other), other);
  SoftwareStack alone{"a", {"a"}, {}};
  alone.model_parallel = "b";
  EXPECT_EQ(ForModelParallel(std::span(&alone, 1), &alone), &alone);
}

TEST(SoftwareStackTest, DivisionOfGradients) {
  const auto stack = LoadSoftwareStack(
      Write("name: a\nwith_zero: [X]\nmodel_parallel: b\nreleases:\n  - source: s\n"
            "    overlap_from: 3\n    sums_whole: 1\n    gathers_after_update: true\n"
            "    gathers_masters: true\n"));
  ASSERT_TRUE(stack.ok()) << stack.status();
  EXPECT_THAT(stack->with_zero, testing::ElementsAre("x"));
  EXPECT_EQ(stack->model_parallel, "b");
  const StackRelease& release = stack->At("", {""});
  EXPECT_EQ(release.overlap_from, 3);
  EXPECT_EQ(release.sums_whole, 1);
  EXPECT_TRUE(release.gathers_after_update && release.gathers_masters);
  EXPECT_THAT(LoadSoftwareStack(Write("name: a\nreleases:\n  - source: s\n")).status().message(),
              HasSubstr("frameworks"));
  EXPECT_THAT(LoadSoftwareStack(Write("name: a\nframeworks: [x]\nreleases:\n  - source: s\n"
                                      "    overlap_from: 4\n"))
                  .status()
                  .message(),
              HasSubstr("overlap_from"));
}

TEST(SoftwareStackTest, DatesAsPeopleWriteThem) {
  for (const auto& [text, date] : std::initializer_list<std::pair<const char*, const char*>>{
           {"2025", "2025"},
           {"2025-03", "2025-03"},
           {"2025-3-1", "2025-03-01"},
           {"2025/03", "2025-03"},
           {"03/2025", "2025-03"},
           {"March 2025", "2025-03"},
           {"Mar. 3, 2025", "2025-03"},
           {"3 March 2025", "2025-03"},
           {"13/04/2025", "2025-04"},
           {"v25.03", "v25.03"},
           {"25.03.1", "25.03.1"},
           {"v24.11.1", "v24.11.1"},
           {"03/04/2025", ""},
           {"2031-13", ""},
           {"13/2025", ""},
           {"20250601", "2025-06-01"},
           {"202506", "2025-06"},
           {"2.8.0.dev20250601", "2025-06-01"},
           {"20251301", ""},
           {"20250600", ""},
           {"2025-3-45", "2025-03"},
           {"Sept. 2025", "2025-09"},
           {"Q4 2025", ""},
           {"week 2 2025", ""},
           {"H2 2025", ""},
           {"2025 Q3", ""},
           {"45/04/2025", ""},
           {"March of 2025", ""},
           {"decade 2025", ""},
           {"yesterday", ""},
           {"core_r0.8.0", ""},
           {"0.14.2", ""},
           {"", ""}}) {
    EXPECT_EQ(ReleaseDate(text), date) << text;
  }
}

// A chip that no device has would never be found.
TEST(SoftwareStackTest, NamesChipsThatThereAre) {
  std::set<std::string> chips;
  for (const ShippedFile& file : ListShipped(kAccelerators)) {
    const auto device = LoadAccelerator(file.path);
    ASSERT_TRUE(device.ok()) << device.status();
    chips.insert(device->chip);
  }
  const auto stacks = LoadSoftwareStacks();
  ASSERT_TRUE(stacks.ok()) << stacks.status();
  int named = 0;
  for (const SoftwareStack& stack : *stacks) {
    for (const StackRelease& release : stack.releases) {
      std::vector<std::string> of = release.grouped_expert_chips;
      for (const auto& [chip, slowdown] : release.attention_slowdown) of.push_back(chip);
      for (const std::string& chip : of) {
        ++named;
        EXPECT_TRUE(chips.contains(chip)) << stack.name << " " << release.since << ": " << chip;
      }
    }
  }
  EXPECT_GT(named, 0);
}

}  // namespace
}  // namespace foretrace
