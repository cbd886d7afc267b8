#include "simulator/mapping/training_row_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "simulator/mapping/training_row_fields.h"
#include "tests/unit/mapping/known_rows.h"

namespace foretrace {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(TrainingRowTextTest, WordsAndSigns) {
  EXPECT_THAT(TextWords("--tp_comm-overlap=True; ZeRO-1.5 (x)."),
              ElementsAre("tp", "comm", "overlap", "true", ";", "zero", "1.5", "(", "x", ")", "."));
  EXPECT_THAT(TextWords(""), IsEmpty());
}

TEST(TrainingRowTextTest, DeniedBeforeAndBehind) {
  for (const char* text :
       {"no offloading", "without any offloading", "not using offload", "non-offloaded",
        "never offloaded", "offload: no", "offload=0", "offload off", "offload was not used",
        "offload is disabled; x", "offloading not used", "offload: no, x", "offload=False",
        "offload unused", "offload no; offload=off"}) {
    EXPECT_EQ(ToldOf(text, {"offload*"}), Told::kNo) << text;
  }
  for (const char* text :
       {"offload", "offload; no overlap", "offload no overlap", "offload, not used: y",
        "Nano offload", "offload offline", "offload 0.5", "no offload of x; offload of y"}) {
    EXPECT_EQ(ToldOf(text, {"offload*"}), Told::kYes) << text;
  }
  EXPECT_EQ(ToldOf("reloading", {"load*"}), Told::kNothing);
  EXPECT_EQ(ToldOf("offloading", {"offload"}), Told::kNothing);
}

// What keeps inputs, which notes deny before and behind, at each place that they name it.
TEST(TrainingRowTextTest, InputsThatAreNotKeptSo) {
  const auto row = [](const char* note) {
    std::vector<SoftwareStack> stacks = Stacks();
    stacks.push_back({"megatron", {"megatron"}, {StackRelease()}});
    return Judge({{"note", note}, {"recompute", "full"}, {"tp", "2"}, {"framework", "megatron"}},
                 "known", stacks);
  };
  for (const char* note : {"activation offloading: no", "activation offload was not used",
                           "no activation offload", "activation offloading disabled"}) {
    EXPECT_EQ(row(note).refused, "");
    EXPECT_FALSE(row(note).mapping.inputs_on_host) << note;
  }
  EXPECT_TRUE(row("offloaded activations").mapping.inputs_on_host);
  EXPECT_TRUE(row("--partition-activations --offload-optimizer").mapping.divided_inputs);
  EXPECT_TRUE(
      row("no partition-activations at first; partition-activations").mapping.divided_inputs);
}

// What experts' tokens are sent by and what hides it, denied behind, too.
TEST(TrainingRowTextTest, DispatchThatWasNot) {
  const auto row = [](const char* note, bool by_itself = false) {
    std::vector<SoftwareStack> stacks = Stacks();
    if (by_itself) {
      stacks[1].releases[0].dispatch = ExpertDispatch::kDeepEp;
      stacks[1].releases[0].overlap_experts = true;
    }
    return Judge({{"note", note}, {"ep", "16"}, {"global_batch", "64"}, {"framework", "Composer"}},
                 "experts", stacks);
  };
  for (const char* note : {"DeepEP disabled; ep overlap disabled", "a2a overlap: off", "DeepEP off",
                           "DeepEP was not used"}) {
    for (const bool by_itself : {false, true}) {
      const ParallelMapping m = row(note, by_itself).mapping;
      const bool overlap = std::string(note).find("overlap") != std::string::npos;
      const bool deep = std::string(note).find("DeepEP") != std::string::npos;
      EXPECT_TRUE(!deep || m.dispatch != ExpertDispatch::kDeepEp) << note;
      EXPECT_EQ(m.overlap_experts, by_itself && !overlap) << note;
    }
  }
  EXPECT_EQ(row("--moe-token-dispatcher-type=allgather").mapping.dispatch,
            ExpertDispatch::kAllGather);
  EXPECT_EQ(row("--moe-token-dispatcher-type=alltoall", true).mapping.dispatch,
            ExpertDispatch::kAllToAll);
}

// Modules beside others, and words that only look like theirs.
TEST(TrainingRowTextTest, ModulesByWholeWords) {
  const auto of = [](const char* text) { return RecomputeIn(text, Recompute::kSelective); };
  EXPECT_EQ(of("full (incl. layernorm)"), Recompute::kFull);
  EXPECT_EQ(of("full MoE activation checkpointing"), Recompute::kFull);
  EXPECT_EQ(of("MoE activation checkpointing"), Recompute::kFull);
  EXPECT_EQ(of("full, offload to the host"), Recompute::kFull);
  EXPECT_EQ(of("core_attn, layernorm"), Recompute::kModules);
  // Norms of dense layers run again with the GEMMs that they are part of.
  const TrainingRow dense = Judge({{"recompute", "core_attn, layernorm"}, {"micro_batch", "1"}});
  EXPECT_THAT(dense.notes, ElementsAre(HasSubstr("modules layernorm: the model has none")));
  EXPECT_EQ(dense.mapping.recompute, Recompute::kSelective);
}

// MaxText's remat_policy: what is kept decides what runs again.
TEST(TrainingRowTextTest, RematPolicies) {
  const auto of = [](const char* text) { return RecomputeIn(text, Recompute::kOperators); };
  EXPECT_EQ(of("minimal_with_context"), Recompute::kLight);
  EXPECT_EQ(of("remat_policy=minimal_flash"), Recompute::kLight);
  EXPECT_EQ(of("minimal"), Recompute::kSelective);
  EXPECT_EQ(of("remat_policy: full"), Recompute::kFull);
  EXPECT_EQ(of("remat full"), Recompute::kFull);
  EXPECT_EQ(of("save_out_proj"), Recompute::kFull);
  EXPECT_EQ(of("remat none"), Recompute::kNone);
  EXPECT_EQ(of("minimal_offloaded"), std::nullopt);
  for (const char* policy :
       {"save_qkv_proj", "save_dot_except_mlp", "remat_policy=save_qkv_proj"}) {
    EXPECT_EQ(of(policy), Recompute::kModules) << policy;
    EXPECT_EQ(ToString(ModulesIn(policy)), "core_attn+mlp") << policy;
  }
  EXPECT_EQ(ToString(ModulesIn("save_dot_with_context_except_mlp")), "mlp");
}

// How many layers run again at once, by method, and what is no number of them.
TEST(TrainingRowTextTest, LayersThatRunAgainAtOnce) {
  const auto row = [](Cells cells) {
    cells.emplace_back("framework", "Composer");
    cells.emplace_back("micro_batch", "1");
    if (cells[0].first != "recompute") cells.emplace_back("recompute", "full");
    return Judge(cells);
  };
  // Those of a chunk's 32 that are recomputed alone.
  const std::pair<Cells, int32_t> blocks[] = {
      {{{"recompute_method", "block"}, {"recompute_num_layers", "1"}}, 1},
      {{{"recompute", "block"}, {"recompute_num_layers", "3"}}, 3},
      {{{"recompute", "full, block 4"}}, 4},
      {{{"recompute", "block (5 layers)"}}, 5},
      {{{"recompute", "first-8"}}, 8},
      {{{"recompute", "full"}, {"note", "--recompute-method block --recompute-num-layers 6"}}, 6},
      {{{"recompute", "full, last 2 layers"}}, 2},
      {{{"recompute_method", "block"}, {"recompute_num_layers", "32"}}, -1},
      {{{"recompute", "full by block"}}, -1}};
  for (const auto& [cells, layers] : blocks) {
    const TrainingRow block = row(cells);
    EXPECT_EQ(block.mapping.recompute, Recompute::kFull) << cells[0].second;
    EXPECT_EQ(block.mapping.recomputed_layers, layers) << cells[0].second;
    EXPECT_EQ(block.mapping.recomputed_together, 0) << cells[0].second;
    EXPECT_THAT(block.notes, IsEmpty()) << cells[0].second;
  }
  const TrainingRow nothing = row({{"recompute", "block"}, {"recompute_num_layers", "0"}});
  EXPECT_EQ(nothing.mapping.recompute, Recompute::kNone);
  EXPECT_THAT(nothing.notes, ElementsAre(HasSubstr("is none")));
  EXPECT_EQ(row({{"recompute", "uniform 4"}}).mapping.recomputed_together, 4);
  const TrainingRow odd = row({{"recompute_method", "odd"}, {"recompute_num_layers", "4"}});
  EXPECT_EQ(odd.mapping.recomputed_together, 4);
  EXPECT_THAT(odd.notes, ElementsAre(HasSubstr("'odd' is taken for uniform")));
  const TrainingRow method = Judge({{"recompute", ""},
                                    {"recompute_method", "block"},
                                    {"recompute_num_layers", "2"},
                                    {"micro_batch", "1"}});
  EXPECT_EQ(method.mapping.recompute, Recompute::kFull);
  EXPECT_EQ(method.mapping.recomputed_layers, 2);
  const TrainingRow other =
      row({{"note", "fp8 scales per block 128"}, {"recompute_num_layers", "4"}});
  EXPECT_EQ(other.mapping.recomputed_together, 4);
  EXPECT_THAT(other.notes, IsEmpty());
  EXPECT_EQ(row({{"checkpoint_num_layers", "2"}}).mapping.recomputed_together, 2);
  EXPECT_EQ(row({{"note", "checkpoint every 500 steps"}}).mapping.recomputed_together, 0);
  for (const char* text : {"abc", "-1"}) {
    EXPECT_THAT(row({{"recompute_num_layers", text}}).refused,
                HasSubstr(std::string("recompute_num_layers '") + text + "'"));
  }
  const TrainingRow many = row({{"recompute_num_layers", "500"}});
  EXPECT_EQ(many.mapping.recomputed_together, 32);
  EXPECT_THAT(many.notes, ElementsAre(HasSubstr("500 layers that run again at once")));
}

TEST(TrainingRowTextTest, ColumnsThatSayYesOrNo) {
  std::vector<SoftwareStack> stacks = Stacks();
  stacks.push_back({"megatron", {"megatron"}, {StackRelease()}});
  const auto row = [&](const char* text, const char* tensor = "2") {
    return Judge({{"partition_activations", text},
                  {"recompute", "full"},
                  {"tp", tensor},
                  {"micro_batch", "1"},
                  {"framework", "megatron"}},
                 "known", stacks);
  };
  EXPECT_TRUE(row("on").mapping.divided_inputs);
  EXPECT_FALSE(row("off").mapping.divided_inputs);
  EXPECT_THAT(row("off").notes, IsEmpty());
  EXPECT_FALSE(row("maybe").mapping.divided_inputs);
  EXPECT_THAT(row("maybe").unread, ElementsAre(HasSubstr("partition_activations 'maybe'")));
  EXPECT_FALSE(row("1", "1").mapping.divided_inputs);
  EXPECT_THAT(row("1", "1").notes, ElementsAre(HasSubstr("tp 1 leaves nothing to divide")));
}

TEST(TrainingRowTextTest, SixteenBitsOfTwoKinds) {
  EXPECT_THAT(Judge({{"precision", "16"}}).notes, Contains(HasSubstr("fp16, not bf16")));
  EXPECT_EQ(Judge({{"precision", "16"}}).config.dtype, DType::kFloat16);
  EXPECT_THAT(Judge({{"precision", "16-mixed"}, {"micro_batch", "1"}}).notes, IsEmpty());
}

// The column stands over the note; what neither knows, or says otherwise, is said.
TEST(TrainingRowTextTest, SchedulesOfColumnsAndNotes) {
  const auto row = [](Cells cells) {
    for (const auto& cell : Cells{{"pp", "4"}, {"micro_batch", "1"}, {"global_batch", "128"}})
      cells.push_back(cell);
    return Judge(cells);
  };
  const TrainingRow column = row({{"schedule", "1F1B"}, {"note", "GPipe was 20 % slower"}});
  EXPECT_EQ(column.mapping.schedule, ScheduleKind::k1F1B);
  EXPECT_THAT(column.notes, IsEmpty());
  EXPECT_EQ(row({{"note", "1F1B; GPipe was 20 % slower"}}).mapping.schedule, ScheduleKind::k1F1B);
  EXPECT_EQ(row({{"schedule", "ScheduleGPipe"}}).mapping.schedule, ScheduleKind::kGPipe);
  for (const char* name : {"ZB-2P", "Chimera"}) {
    EXPECT_EQ(row({{"schedule", name}}).mapping.schedule, ScheduleKind::k1F1B);
    EXPECT_THAT(row({{"schedule", name}}).unread, ElementsAre(HasSubstr(name))) << name;
  }
  for (const char* name : {"zero bubble H2", "ZB-H2", "zero bubble (ZB-H2)"}) {
    EXPECT_EQ(row({{"schedule", name}}).mapping.schedule, ScheduleKind::k1F1B) << name;
    EXPECT_THAT(row({{"schedule", name}}).notes, ElementsAre(HasSubstr("zb-h2 is not covered")));
  }
  const TrainingRow one = row({{"schedule", "Interleaved1F1B"}, {"vp", "1"}});
  EXPECT_EQ(one.mapping.chunks, 1);
  EXPECT_THAT(one.notes, ElementsAre(HasSubstr("vp 1 leaves one chunk")));
  EXPECT_EQ(row({{"note", "Llama-Nano interleaved 1F1B"}}).mapping.chunks, 2);
  EXPECT_EQ(row({{"note", "1F1B, interleaved"}}).mapping.chunks, 2);
  EXPECT_EQ(row({{"schedule", "non-interleaved"}}).mapping.chunks, 1);
  EXPECT_EQ(row({{"schedule", "GPipe"}, {"mapping", "1f1b"}}).refused,
            "schedule 'GPipe' and mapping '1f1b' contradict one another");
  EXPECT_EQ(row({{"schedule", "GPipe"}, {"mapping", "gpipe"}}).refused, "");
}

// What software does by itself is not what a column says that it did not.
TEST(TrainingRowTextTest, SchedulesOfColumnsAndSoftware) {
  std::vector<SoftwareStack> stacks = Stacks();
  stacks[0].releases[0].dual_pipe = true;
  const auto schedule = [&](const char* column) {
    return Judge({{"schedule", column}, {"pp", "4"}, {"global_batch", "128"}}, "known", stacks)
        .mapping.schedule;
  };
  EXPECT_EQ(schedule(""), ScheduleKind::kDualPipe);
  EXPECT_EQ(schedule("DualPipe"), ScheduleKind::kDualPipe);
  EXPECT_EQ(schedule("1F1B"), ScheduleKind::k1F1B);
  EXPECT_EQ(schedule("ZBV"), ScheduleKind::kZeroBubbleV);
}

// Whether the mapping can have it hangs on what replicas divide, too.
TEST(TrainingRowTextTest, DualPipeOfDividedGradients) {
  const auto row = [](const char* sharding) {
    return Judge(
        {{"schedule", "DualPipe"}, {"pp", "4"}, {"global_batch", "128"}, {"sharding", sharding}});
  };
  EXPECT_EQ(row("ZeRO-1").mapping.schedule, ScheduleKind::kDualPipe);
  EXPECT_EQ(row("ZeRO-2").refused, "");
  EXPECT_EQ(row("ZeRO-2").mapping.schedule, ScheduleKind::k1F1B);
  EXPECT_THAT(row("ZeRO-2").notes, Contains(HasSubstr("with these degrees")));
}

}  // namespace
}  // namespace foretrace
