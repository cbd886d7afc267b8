// ZeRO++ (Wang et al., 2023): what replicas exchange less of under ZeRO 3, and keep more of.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "simulator/mapping/idle_choice.h"
#include "simulator/mapping/mapping_plan.h"
#include "simulator/mapping/memory_model.h"
#include "tests/unit/mapping/hand_derived.h"

namespace foretrace {
namespace {

using ::testing::HasSubstr;

ParallelMapping TwoNodes() {
  ParallelMapping m = Mapping(1, 16);
  m.zero = 3;
  return m;
}

std::string Fault(const TransformerConfig& model, const std::string& words) {
  const auto read = ParseMapping(words, 64, "test");
  EXPECT_TRUE(read.ok()) << read.status();
  return read.ok() ? std::string(CheckMapping(model, *read, 0).message()) : "";
}

// 16 replicas in two nodes of 8, L bytes a layer: the first forward pass gathers from all, two
// rings' steps outside; backward, and forward from the second micro-batch on, each node has all.
TEST(ZeroPlusPlusTest, SecondPartitionIsGatheredWithinNodes) {
  ParallelMapping m = TwoNodes();
  const PassTimes all = Times(Model(), m);
  m.second_shards = 8;
  const PassTimes second = Times(Model(), m);
  const double bytes = static_cast<double>(second.weight_bytes.count());
  const double inside = 7.0 / 8 * bytes / 100e9 * 1e6 + 7 * 2;
  EXPECT_EQ(second.weight_bytes, all.weight_bytes);
  EXPECT_EQ(second.Gather(true), all.Gather(true));
  EXPECT_EQ(all.Gather(false), all.Gather(true));
  EXPECT_NEAR(second.Gather(false).us(), inside, 1e-3);
  EXPECT_LT(inside, all.Gather(true).us());
  EXPECT_EQ(second.gradient.time, all.gradient.time);
  EXPECT_EQ(second.first_root.gather, all.first_root.gather);
  m.global_batch = 64;
  const PassTimes four = Times(Model(), m);
  EXPECT_NEAR(four.Gather(true).us(), (all.Gather(true).us() + 3 * inside) / 4, 1e-3);
  EXPECT_EQ(four.Gather(false), second.Gather(false));
}

// Where nothing is gathered ahead a recomputed layer's weights are gathered twice, both times from
// the second partition.
TEST(ZeroPlusPlusTest, WhatRunsAgainGathersTheSecondPartition) {
  ParallelMapping m = TwoNodes();
  m.second_shards = 8;
  m.recompute = Recompute::kFull;
  ClusterParameters p = Cluster();
  const PassTimes ahead = Times(Model(), m, p);
  p.gathers_ahead = false;
  const PassTimes waits = Times(Model(), m, p);
  EXPECT_EQ(waits.gathers_forward, ahead.Gather(true));
  EXPECT_EQ(waits.gathers_backward, ahead.Gather(false) + ahead.Gather(false));
}

// An eighth of all weights, in 16 bits, beside a sixteenth.
TEST(ZeroPlusPlusTest, SecondPartitionIsKept) {
  ParallelMapping m = TwoNodes();
  const MemoryLedger one = MemoryOf(Model(), m);
  m.second_shards = 8;
  const MemoryLedger two = MemoryOf(Model(), m);
  EXPECT_NEAR(static_cast<double>(two.weights.count()),
              3.0 * static_cast<double>(one.weights.count()), 4);
  EXPECT_EQ(two.optimizer, one.optimizer);
  EXPECT_EQ(two.gradients, one.gradients);
}

TEST(ZeroPlusPlusTest, TracesGatherBackwardWithinNodes) {
  ParallelMapping m = TwoNodes();
  m.second_shards = 8;
  const auto plan = PlanOf(Model(), m, Times(Model(), m));
  ASSERT_TRUE(plan.ok()) << plan.status();
  const auto sizes = [&](PassKind kind) {
    std::vector<size_t> of;
    const PlannedStage& stage = plan->stages[0];
    for (size_t i = 0; i < stage.passes.size(); ++i) {
      if (stage.passes[i].kind != kind) continue;
      for (const PlanStep& step : stage.bodies[stage.body_of[i]].steps) {
        if (step.op != CollectiveOp::kAllGather) continue;
        of.push_back(plan->groups[static_cast<size_t>(step.group)].sets[0].size());
      }
    }
    return of;
  };
  EXPECT_THAT(sizes(PassKind::kForward), testing::ElementsAre(16, 16, 16, 16, 16));
  EXPECT_THAT(sizes(PassKind::kBackward), testing::ElementsAre(8, 8, 8, 8));
}

TEST(ZeroPlusPlusTest, WordsOfASecondPartition) {
  const auto read = ParseMapping("tp1 pp1 dp16 mb1 v1 none zero3 hpz8", 64, "test");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->second_shards, 8);
  EXPECT_EQ(ToString(*read), "tp1 pp1 dp16 mb1 v1 none zero3 hpz8");
  const TransformerConfig c = Model();
  EXPECT_EQ(Fault(c, "dp16 zero3 hpz8"), "");
  EXPECT_THAT(Fault(c, "dp16 zero2 hpz8"), HasSubstr("zero3 too"));
  EXPECT_THAT(Fault(c, "dp16 zero3 hpz8 hsdp8"), HasSubstr("say one"));
  EXPECT_THAT(Fault(c, "dp16 zero3 hpz3"), HasSubstr("does not divide the 16 replicas"));
  EXPECT_THAT(Fault(c, "dp16 zero3 hpz1"), HasSubstr("leave it out"));
  EXPECT_THAT(Fault(c, "dp16 zero3 offload offload-weights hpz8"), HasSubstr("on the host"));
  EXPECT_THAT(Fault(Model(8), "dp16 ep8 zero3 hpz8"), HasSubstr("divided experts"));
  EXPECT_THAT(IdleChoice(*ParseMapping("dp16 zero3 hpz16", 64, "test")),
              HasSubstr("all 16 replicas"));
  EXPECT_EQ(IdleChoice(*read), "");
  EXPECT_THAT(IdleWord("dp16 zero3 hpz0", false), HasSubstr("leave it out"));
}

}  // namespace
}  // namespace foretrace
