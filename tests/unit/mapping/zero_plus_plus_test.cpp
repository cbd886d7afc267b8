// ZeRO++ (Wang et al., 2023): what replicas exchange less of under ZeRO 3, and keep more of.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

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

// Of n weights a byte each, and in a step of its own a scale of 4 bytes for each 8,000 of a
// device's part. Rings of two nodes of 8: 80 GB/s, 14 steps inside, one outside. The second
// partition goes likewise.
TEST(ZeroPlusPlusTest, WeightsAreGatheredInEightBits) {
  ParallelMapping m = TwoNodes();
  const ClusterParameters p = GemmsAlone();
  m.second_shards = 8;
  const double n = static_cast<double>(Times(Model(), m, p).weight_bytes.count()) / 2;
  m.eight_bit_weights = true;
  const PassTimes eight = Times(Model(), m, p);
  EXPECT_EQ(eight.weight_bytes.count(), static_cast<int64_t>(n));
  const auto scales = [&](double ranks) { return ranks * std::ceil(n / ranks / 8000) * 4; };
  const double all = 15.0 / 16 * (n + scales(16)) / 80e9 * 1e6 + 2 * (14 * 2 + 10);
  const double inside = 7.0 / 8 * (n + scales(8)) / 100e9 * 1e6 + 2 * 7 * 2;
  EXPECT_NEAR(eight.Gather(true).us(), all, 1e-2);
  EXPECT_NEAR(eight.Gather(false).us(), inside, 1e-2);
}

// Memory of 1 GB/s: each device casts its 16th, 2 bytes read and 1 written, before a gathering, and
// all after it, 1 read and 2 written; of bfloat16 by way of float16, 4 more.
TEST(ZeroPlusPlusTest, WeightsAreCastAndCastBack) {
  ClusterParameters p = GemmsAlone();
  p.peak_memory = Bandwidth::GBps(1);
  p.memory_efficiency = 1;
  for (const auto& [dtype, casts] :
       {std::pair(DType::kFloat16, 3), std::pair(DType::kBFloat16, 7)}) {
    TransformerConfig c = Model();
    c.dtype = dtype;
    ParallelMapping m = TwoNodes();
    const PassTimes plain = Times(c, m, p);
    const double n = static_cast<double>(plain.weight_bytes.count()) / 2;
    m.eight_bit_weights = true;
    const PassTimes eight = Times(c, m, p);
    ClusterParameters links = p;
    links.peak_memory = Bandwidth::GBps(1e9);
    const SimTime exchanged = Times(c, m, links).Gather(true);
    EXPECT_NEAR((eight.Gather(true) - exchanged).seconds(), casts * n / 16 / 1e9, 1e-6);
    EXPECT_NEAR((eight.layer_forward - plain.layer_forward).seconds(), casts * n / 1e9, 1e-6);
    EXPECT_NEAR((eight.layer_backward - plain.layer_backward).seconds(), casts * n / 1e9, 1e-6);
    const double root = static_cast<double>(plain.first_root.weights.count()) / 2;
    EXPECT_NEAR((eight.embedding_forward + eight.head_forward - plain.embedding_forward -
                 plain.head_forward)
                    .seconds(),
                casts * root / 1e9, 1e-6);
    EXPECT_EQ(eight.gradient.time, plain.gradient.time);
    EXPECT_EQ(MemoryOf(c, m).weights, MemoryOf(c, TwoNodes()).weights);
  }
}

TEST(ZeroPlusPlusTest, WordsOfEightBitWeights) {
  const auto read = ParseMapping("tp1 pp1 dp16 mb1 v1 none zero3 hpz8 qwz", 64, "test");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_TRUE(read->eight_bit_weights);
  EXPECT_EQ(ToString(*read), "tp1 pp1 dp16 mb1 v1 none zero3 hpz8 qwz");
  EXPECT_EQ(Fault(Model(), "dp16 zero3 qwz"), "");
  EXPECT_THAT(Fault(Model(), "dp16 zero2 qwz"), HasSubstr("zero3 and at least 2 replicas"));
  EXPECT_THAT(Fault(Model(), "zero3 qwz"), HasSubstr("zero3 and at least 2 replicas"));
  EXPECT_THAT(Fault(Model(), "dp16 zero3 hsdp8 qwz"), HasSubstr("hpz8 would do"));
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
  // Of zero2 it is said that zero3 is needed, above.
  EXPECT_EQ(IdleChoice(*ParseMapping("dp16 zero2 hpz16", 64, "test")), "");
  EXPECT_EQ(IdleChoice(*read), "");
  EXPECT_THAT(IdleWord("dp16 zero3 hpz0", false), HasSubstr("leave it out"));
}

}  // namespace
}  // namespace foretrace
