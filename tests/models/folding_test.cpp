// The folded evaluator of searches equals the engine's replay of the lowered plan, to the bit.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <utility>

#include "simulator/engine/replay.h"
#include "simulator/mapping/mapping_plan.h"
#include "simulator/mapping/stage_plan.h"
#include "simulator/plan/lowering.h"
#include "tests/support/hybrid_model.h"
#include "tests/support/random_mapping.h"
#include "tests/support/ring_plan.h"
#include "tests/support/round_links.h"

namespace foretrace {
namespace {

SimTime ReplayedEnd(const absl::StatusOr<JobPlan>& plan, const LoweringOptions& options = {}) {
  EXPECT_TRUE(plan.ok()) << plan.status();
  if (!plan.ok()) return {};
  const auto store = Lower(*plan, options);
  EXPECT_TRUE(store.ok()) << store.status();
  if (!store.ok()) return {};
  const auto prediction = Predict(*store, {}, nullptr);
  EXPECT_TRUE(prediction.ok()) << prediction.status();
  SimTime end;
  if (!prediction.ok()) return end;
  for (const auto& rank : prediction->ranks) {
    end = std::max(end, rank.iterations.back().predicted_end);
  }
  return end;
}

TEST(FoldingTest, EqualsReplayOfGeneratedTraces) {
  TransformerConfig model = TinyTransformer();
  std::mt19937 rng(5);
  int compared = 0, two_kinds = 0, rings = 0;
  for (int round = 0; round < 800 && compared < 80; ++round) {
    const ParallelMapping m = DrawMapping(rng, model);
    two_kinds += DenseLayers(model) > 0 ? 1 : 0;
    rings += m.ring ? 1 : 0;
    ClusterParameters cluster;
    // Slow links hide no ring wholly.
    RoundLinks links;
    if (rng() % 2 == 0) links.gather_gbps = links.nic_gbps = 0.1;
    cluster.exchanges = Exchanges(links);
    SetExpertLinks(cluster);
    // Groups of experts within a node, and over several.
    cluster.devices_per_node = rng() % 2 == 0 ? 8 : 2;
    cluster.forms.wide_merges = rng() % 2 == 0;
    cluster.forms.compiled = rng() % 2 == 0;
    cluster.host_link = Bandwidth::GBps(12);
    cluster.host_memory = Bandwidth::GBps(200);
    cluster.reduces_scales = true;
    cluster.blocking_transfers = rng() % 2 == 0;
    cluster.blocking_chunks = rng() % 2 == 0;
    cluster.transfers_in_turn = rng() % 2 == 0;
    cluster.whole_gradient_messages = rng() % 2 == 0;
    cluster.reduces_copies_last = rng() % 2 == 0;
    const auto folded = EstimateIteration(model, m, cluster);
    if (!folded.ok()) continue;
    ++compared;
    const SimTime end = ReplayedEnd(PlanOf(model, m, folded->passes));
    EXPECT_EQ(end.ps(), folded->time.ps()) << ToString(m) << " " << Name(m.schedule);
  }
  EXPECT_EQ(compared, 80);
  EXPECT_GT(two_kinds, 10);
  EXPECT_GT(rings, 10);
}

// Layers of which each is one part.
TEST(FoldingTest, HybridLayersEqualReplayOfGeneratedTraces) {
  std::mt19937 rng(7);
  int compared = 0, experts = 0, sequences = 0;
  for (int round = 0; round < 4'000 && compared < 80; ++round) {
    const TransformerConfig models[] = {HybridModel(), HybridExperts(), HybridModel("P-P-M*P-"),
                                        DeltaModel()};
    const TransformerConfig& model = models[rng() % 4];
    TransformerConfig drawn = TinyTransformer();
    drawn.experts = model.experts;
    ParallelMapping m = DrawMapping(rng, drawn);
    m.expert = model.experts > 0 ? m.expert : 1;
    ClusterParameters cluster;
    cluster.exchanges = Exchanges();
    SetExpertLinks(cluster);
    cluster.host_link = Bandwidth::GBps(12);
    cluster.host_memory = Bandwidth::GBps(200);
    const auto folded = EstimateIteration(model, m, cluster);
    if (!folded.ok()) continue;
    ++compared;
    experts += m.expert > 1 ? 1 : 0;
    sequences += m.context > 1 ? 1 : 0;
    EXPECT_EQ(ReplayedEnd(PlanOf(model, m, folded->passes)).ps(), folded->time.ps())
        << ToString(m) << " " << Name(m.schedule);
  }
  EXPECT_EQ(compared, 80);
  EXPECT_GT(experts, 2);
  EXPECT_GT(sequences, 2);
}

// Embedding and output layer alone on the first and the last chunk.
TEST(FoldingTest, ChunksWithoutLayersEqualReplayOfGeneratedTraces) {
  TransformerConfig model = TinyTransformer(6);
  ClusterParameters cluster;
  cluster.exchanges = Exchanges();
  int compared = 0;
  for (const char* words :
       {"pp8 dp1 mb1 gb8 ends", "pp4 v2 dp1 mb1 gb8 ends", "pp8 dp2 mb1 gb16 zero1 overlap ends",
        "pp4 v2 dp2 mb1 gb16 zero3 overlap ends", "pp4 v2 tp2 sp dp2 mb1 gb16 zero1 ends",
        "pp8 dp1 mb1 gb8 full ends", "pp8 dp1 mb1 gb8 zb-h1 ends",
        "pp8 dp2 mb1 gb16 gpipe zero2 ends"}) {
    const auto m = ParseMapping(words, 0, "test");
    ASSERT_TRUE(m.ok()) << m.status();
    const auto folded = EstimateIteration(model, *m, cluster);
    ASSERT_TRUE(folded.ok()) << words << ": " << folded.status();
    ++compared;
    EXPECT_EQ(ReplayedEnd(PlanOf(model, *m, folded->passes)).ps(), folded->time.ps()) << words;
  }
  EXPECT_EQ(compared, 8);
}

// Weights divided within groups of replicas, on nodes that hold a group and on smaller ones.
TEST(FoldingTest, GroupsOfReplicasEqualReplayOfGeneratedTraces) {
  TransformerConfig model = TinyTransformer();
  std::mt19937 rng(6);
  int compared = 0, apart = 0;
  for (int round = 0; round < 1'000 && compared < 40; ++round) {
    ParallelMapping m = DrawMapping(rng, model);
    m.data = 4;
    m.context = 1;
    m.ring = m.ulysses = false;
    m.zero = 2 + static_cast<int32_t>(rng() % 2);
    m.hybrid = 2;
    m.global_batch = 4 * m.micro_batch * m.pipeline * (1 + static_cast<int32_t>(rng() % 3));
    ClusterParameters cluster;
    RoundLinks links;
    if (rng() % 2 == 0) links.gather_gbps = links.nic_gbps = 0.1;
    cluster.exchanges = Exchanges(links);
    SetExpertLinks(cluster);
    cluster.devices_per_node = rng() % 3 == 0 ? 8 : 2 * m.tensor;
    cluster.host_link = Bandwidth::GBps(12);
    cluster.host_memory = Bandwidth::GBps(200);
    cluster.reduces_copies_last = rng() % 4 == 0;
    const auto folded = EstimateIteration(model, m, cluster);
    if (!folded.ok()) continue;
    ++compared;
    apart += folded->passes.copies_behind > SimTime() ? 1 : 0;
    const SimTime end = ReplayedEnd(PlanOf(model, m, folded->passes));
    EXPECT_EQ(end.ps(), folded->time.ps()) << ToString(m) << " " << Name(m.schedule);
  }
  EXPECT_EQ(compared, 40);
  EXPECT_GT(apart, 4);
}

// Experts that tensor-parallel ranks share out have replicas where dense weights have none.
TEST(FoldingTest, ExpertsWithReplicasOfTheirOwnEqualReplayOfGeneratedTraces) {
  TransformerConfig model = TinyTransformer(4);
  model.experts = 8;
  model.top_k = 2;
  ClusterParameters cluster;
  cluster.exchanges = Exchanges();
  for (const char* words :
       {"tp4 sp etp1 ep2 dp1 mb1 gb2 zero3", "tp4 sp etp1 ep2 dp1 mb1 gb2 zero2",
        "tp4 sp etp1 ep2 dp1 mb1 gb2 zero3 overlap"}) {
    const auto m = ParseMapping(words, 0, "test");
    ASSERT_TRUE(m.ok()) << m.status();
    const auto folded = EstimateIteration(model, *m, cluster);
    ASSERT_TRUE(folded.ok()) << words << ": " << folded.status();
    EXPECT_GT(folded->passes.expert_gradient.time, SimTime()) << words;
    EXPECT_EQ(ReplayedEnd(PlanOf(model, *m, folded->passes)).ps(), folded->time.ps()) << words;
  }
}

// Of experts on devices of one node and of several, however tokens go to them and what hides it.
TEST(FoldingTest, ExchangesOfExpertsEqualReplayOfGeneratedTraces) {
  TransformerConfig model = TinyTransformer();
  std::mt19937 rng(8);
  int compared = 0, hidden = 0, in_groups = 0, by[3] = {};
  for (int round = 0; round < 400 && compared < 40; ++round) {
    ParallelMapping m = DrawMapping(rng, model);
    model.experts = 8;
    model.top_k = 2;
    m.data = 4;
    m.expert = 4;
    m.last_layers = m.expert_tensor = 0;
    if (m.tensor > 1) m.expert_tensor = 1;
    // Two of four replicas, which have all experts among them.
    m.hybrid = m.tensor > 1 && m.zero > 0 ? 2 : 0;
    m.context = 1;
    m.ring = m.ulysses = false;
    m.global_batch = 4 * m.micro_batch * m.pipeline * (1 + static_cast<int32_t>(rng() % 3));
    m.schedule = rng() % 3 == 0 ? ScheduleKind::kZeroBubbleH1 : ScheduleKind::k1F1B;
    m.k = 1;
    m.dispatch = static_cast<ExpertDispatch>(rng() % 3);
    m.overlap_experts = rng() % 2 == 0;
    ClusterParameters cluster;
    cluster.exchanges = Exchanges();
    cluster.multiprocessors = 100;
    cluster.devices_per_node = rng() % 2 == 0 ? 8 : 2;
    // Slow links are not hidden wholly.
    RoundLinks links;
    if (rng() % 2 == 0) links.nic_gbps = 0.1;
    SetExpertLinks(cluster, links);
    cluster.host_link = Bandwidth::GBps(12);
    cluster.host_memory = Bandwidth::GBps(200);
    const auto folded = EstimateIteration(model, m, cluster);
    if (!folded.ok()) continue;
    ++compared;
    ++by[static_cast<int>(m.dispatch)];
    hidden += m.overlap_experts ? 1 : 0;
    in_groups += m.hybrid > 0 ? 1 : 0;
    const SimTime end = ReplayedEnd(PlanOf(model, m, folded->passes));
    EXPECT_EQ(end.ps(), folded->time.ps()) << ToString(m) << " gb " << m.global_batch;
  }
  EXPECT_EQ(compared, 40);
  EXPECT_GT(hidden, 10);
  EXPECT_GT(in_groups, 5);
  for (const int count : by) EXPECT_GT(count, 5);
}

// Down the line of devices and back up, or with split passes in turn, of layers of one kind and of
// two, with and without what holds a stage until its neighbour has what it sent.
TEST(FoldingTest, SplitPassesOfChunksEqualReplayOfGeneratedTraces) {
  TransformerConfig model = TinyTransformer();
  std::mt19937 rng(11);
  int compared = 0, holds = 0, behind = 0, pairs = 0, divided = 0, turns = 0;
  for (int round = 0; round < 2000 && compared < 60; ++round) {
    ParallelMapping m = DrawMapping(rng, model);
    const ScheduleKind kinds[] = {ScheduleKind::kZeroBubbleV, ScheduleKind::kDualPipeV,
                                  ScheduleKind::kZeroBubbleH1};
    m.schedule = kinds[rng() % 3];
    m.k = 1;
    m.chunks = 2;
    m.pipeline = rng() % 2 == 0 ? 2 : 4;
    if (m.paired()) m.zero = m.hybrid = m.last_layers = 0;
    m.layers.clear();
    m.global_batch = m.data * m.micro_batch * (1 + static_cast<int32_t>(rng() % 12));
    ClusterParameters cluster;
    cluster.exchanges = Exchanges();
    SetExpertLinks(cluster, RoundLinks());
    cluster.host_link = Bandwidth::GBps(12);
    cluster.host_memory = Bandwidth::GBps(200);
    cluster.devices_per_node = rng() % 2 == 0 ? 8 : 2;
    cluster.blocking_transfers = rng() % 2 == 0;
    const auto folded = EstimateIteration(model, m, cluster);
    if (!folded.ok()) continue;
    ++compared;
    holds += cluster.blocking_transfers ? 1 : 0;
    behind += m.overlap_gradients ? 1 : 0;
    pairs += m.paired() ? 1 : 0;
    divided += m.zero > 1 ? 1 : 0;
    turns += m.returns() ? 0 : 1;
    const SimTime end = ReplayedEnd(PlanOf(model, m, folded->passes));
    EXPECT_EQ(end.ps(), folded->time.ps()) << ToString(m) << " gb " << m.global_batch;
  }
  EXPECT_EQ(compared, 60);
  EXPECT_GT(holds, 10);
  EXPECT_GT(behind, 5);
  EXPECT_GT(pairs, 5);
  EXPECT_GT(divided, 5);
  EXPECT_GT(turns, 5);
}

// Both ends feed the pipeline, with and without exchanges of experts beside the other direction's
// passes, of layers of one kind and of two, as many to every stage or not.
TEST(FoldingTest, DualPipeEqualsReplayOfGeneratedTraces) {
  TransformerConfig model = TinyTransformer();
  std::mt19937 rng(9);
  int compared = 0, hidden = 0, behind = 0, uneven = 0;
  for (int round = 0; round < 400 && compared < 40; ++round) {
    ParallelMapping m = DrawMapping(rng, model);
    model.further_tokens = rng() % 3 == 0 ? 1 : 0;
    m.schedule = ScheduleKind::kDualPipe;
    m.k = m.chunks = 1;
    m.pipeline = rng() % 2 == 0 ? 2 : 4;
    m.zero = static_cast<int32_t>(rng() % 2);
    m.hybrid = m.last_layers = 0;
    m.offload = m.offload_weights = m.train_ffn = false;
    if (rng() % 2 == 0) {
      // Another direction's kernels beside what experts exchange.
      model.experts = 8;
      model.top_k = 2;
      m.data = m.expert = 2;
      m.context = m.tensor = 1;
      m.ring = m.ulysses = m.sequence_parallel = m.async_tensor = m.chunked_tensor = false;
      m.expert_tensor = m.lora = 0;
      m.recompute = rng() % 2 == 0 ? Recompute::kNone : Recompute::kLight;
      m.overlap_experts = true;
    }
    m.layers.clear();
    if (rng() % 2 == 0) m.layers = m.pipeline == 2 ? std::vector{5, 3} : std::vector{2, 3, 2, 1};
    m.global_batch = m.data * m.micro_batch * 2 * (m.pipeline + static_cast<int32_t>(rng() % 4));
    ClusterParameters cluster;
    RoundLinks links;
    if (rng() % 2 == 0) links.nic_gbps = 0.1;
    cluster.exchanges = Exchanges(links);
    SetExpertLinks(cluster, links);
    cluster.multiprocessors = 100;
    cluster.devices_per_node = rng() % 2 == 0 ? 8 : 2;
    cluster.blocking_transfers = rng() % 2 == 0;
    const auto folded = EstimateIteration(model, m, cluster);
    if (!folded.ok()) continue;
    ++compared;
    hidden += m.overlap_experts ? 1 : 0;
    behind += m.overlap_gradients ? 1 : 0;
    uneven += m.layers.empty() ? 0 : 1;
    const SimTime end = ReplayedEnd(PlanOf(model, m, folded->passes));
    EXPECT_EQ(end.ps(), folded->time.ps()) << ToString(m) << " gb " << m.global_batch;
    const auto pipeline = PipelineOf(model, m, folded->passes);
    ASSERT_TRUE(pipeline.ok());
    const auto timing = TimePipeline(*pipeline);
    ASSERT_TRUE(timing.ok()) << timing.status();
    double busy = 0;
    for (const SimTime t : timing->stage_busy) busy += t.seconds();
    EXPECT_NEAR(folded->bubble, 1 - busy / (timing->end.seconds() * m.pipeline), 1e-9);
  }
  EXPECT_EQ(compared, 40);
  EXPECT_GT(hidden, 5);
  EXPECT_GT(behind, 10);
  EXPECT_GT(uneven, 10);
}

// Remembers what it is asked; 1 ns a byte.
class Listener : public NetworkModel {
 public:
  std::string_view name() const override { return "listener"; }
  absl::StatusOr<Estimate> IsolatedDuration(const TransferSpec& spec) override {
    asked.push_back(spec);
    return Estimate{SimTime::FromNs(spec.bytes.count()), EstimateSource::kAnalytic, false};
  }
  bool contends() const override { return false; }
  absl::StatusOr<TransferHandle> Start(const TransferSpec&, SimTime) override {
    return absl::UnimplementedError("asked for lengths alone");
  }
  absl::StatusOr<std::optional<Completion>> Next(SimTime) override {
    return absl::UnimplementedError("asked for lengths alone");
  }
  std::vector<TransferSpec> asked;
};

// Three devices that pass on to the next are one transfer to networks, of the bytes that each
// sends.
TEST(FoldingTest, RingsAreTimedByNetworks) {
  const JobPlan plan = RingPlan({}, SimTime::FromNs(5));
  LoweringOptions options;
  options.communication_durations = false;
  const auto store = Lower(plan, options);
  ASSERT_TRUE(store.ok()) << store.status();
  Listener network;
  const auto prediction = Predict(*store, {}, &network);
  ASSERT_TRUE(prediction.ok()) << prediction.status();
  EXPECT_EQ(prediction->schedule.makespan, SimTime::FromNs(105));
  ASSERT_FALSE(network.asked.empty());
  for (const TransferSpec& spec : network.asked) {
    EXPECT_FALSE(spec.point_to_point);
    EXPECT_EQ(spec.op, CollectiveOp::kSendRecv);
    EXPECT_EQ(spec.members, (std::vector<int32_t>{0, 1, 2}));
    EXPECT_EQ(spec.bytes, Bytes(100));
  }
}

// Micro-batches that were counted instead of simulated.
TEST(FoldingTest, CountedMicroBatchesEqualSimulatedOnes) {
  TransformerConfig model;
  model.hidden = 512;
  model.layers = 24;
  model.heads = 8;
  model.vocabulary = 32000;
  model.sequence = 128;
  std::mt19937 rng(7);
  int compared = 0, folded_some = 0, lone = 0;
  for (int round = 0; round < 2000 && compared < 120; ++round) {
    ParallelMapping m;
    m.tensor = 1 << rng() % 2;
    m.pipeline = 1 << rng() % 5;
    m.chunks = 1 + static_cast<int32_t>(rng() % 3);
    if (rng() % 4 == 0 && m.chunks == 1) {
      m.schedule = ScheduleKind::kKFKB;
      m.k = 1 << rng() % 3;
    }
    m.global_batch = 8 * (1 + static_cast<int32_t>(rng() % 60)) + static_cast<int32_t>(rng() % 3);
    // Of experts passes that fill and drain the pipeline take longer than others.
    const bool experts = rng() % 2 == 0 && m.schedule == ScheduleKind::k1F1B;
    model.experts = experts ? 8 : 0;
    model.top_k = experts ? 2 : 0;
    m.overlap_experts = experts;
    m.expert = m.data = experts ? 2 : 1;
    m.global_batch *= m.data;
    // Slow links make round trips, not stages, the bottleneck.
    ClusterParameters cluster;
    RoundLinks links;
    if (rng() % 2 == 0) links.nic_gbps = 0.05 * static_cast<double>(1 + rng() % 20);
    cluster.exchanges = Exchanges(links);
    const auto folded = EstimateIteration(model, m, cluster);
    if (!folded.ok()) continue;
    ++compared;
    const auto pipeline = PipelineOf(model, m, folded->passes);
    ASSERT_TRUE(pipeline.ok());
    const auto timing = TimePipeline(*pipeline);
    ASSERT_TRUE(timing.ok()) << timing.status();
    EXPECT_EQ(folded->pipeline.ps(), timing->end.ps()) << ToString(m) << " gb " << m.global_batch;
    double busy = 0;
    for (const SimTime t : timing->stage_busy) busy += t.seconds();
    EXPECT_NEAR(folded->bubble, 1 - busy / (timing->end.seconds() * m.pipeline), 1e-9);
    folded_some += m.microbatches() > 100;
    lone += experts ? 1 : 0;
  }
  EXPECT_EQ(compared, 120);
  EXPECT_GT(folded_some, 30);
  EXPECT_GT(lone, 30);
}

// Stage graphs whose stages differ in devices and micro-batch size: chains, and diamonds of two
// branches.
TEST(FoldingTest, StageGraphsEqualReplayOfGeneratedTraces) {
  std::mt19937 rng(11);
  int compared = 0;
  for (int round = 0; round < 400 && compared < 40; ++round) {
    TimedPipeline p;
    p.mini_batch = 16;
    std::vector<PlacedStage> stages;
    const bool diamond = rng() % 2 == 0;
    const int32_t count = diamond ? 4 : 2 + static_cast<int32_t>(rng() % 3);
    for (int32_t s = 0; s < count; ++s) {
      const int32_t b = 1 << rng() % 3;
      const auto forward = SimTime::FromNs(100 + static_cast<int64_t>(rng() % 1000));
      const auto backward = SimTime::FromNs(100 + static_cast<int64_t>(rng() % 2000));
      p.stages.push_back({b,
                          KFKBSchedule(16 / b, 1, std::min(16 / b, 4 * (count - s))),
                          {forward},
                          {backward},
                          {}});
      const int32_t tensor = 1 << rng() % 2;
      const int32_t replicas = 1 + static_cast<int32_t>(rng() % 4);
      stages.push_back({"s", tensor * replicas, tensor, SimTime::FromNs(rng() % 500), Bytes(1000)});
      // Of both passes, what their devices sum, in parts.
      for (PassExchangeTime* sums :
           {&p.stages.back().forward_exchange, &p.stages.back().backward_exchange}) {
        if (tensor > 1 && rng() % 2 == 0) {
          *sums = {SimTime::FromNs(static_cast<int64_t>(rng() % 100)), Bytes(4000),
                   1 + static_cast<int32_t>(rng() % 4)};
        }
      }
    }
    const std::vector<std::pair<int32_t, int32_t>> diamond_edges = {{0, 1}, {0, 2}, {1, 3}, {2, 3}};
    std::vector<std::pair<int32_t, int32_t>> edges;
    for (int32_t s = 0; s + 1 < count; ++s) edges.emplace_back(s, s + 1);
    for (const auto& [from, to] : diamond ? diamond_edges : edges) {
      const auto transfer = SimTime::FromNs(static_cast<int64_t>(rng() % 300));
      p.edges.push_back({from, 0, to, 0, transfer, transfer});
    }
    const auto timing = TimePipeline(p);
    if (!timing.ok()) continue;  // schedules that wait for each other
    ++compared;
    SimTime end;
    for (size_t s = 0; s < stages.size(); ++s) {
      const bool replicated = stages[s].devices > stages[s].tensor;
      const SimTime after = replicated ? stages[s].gradient_reduction : SimTime();
      end = std::max(end, timing->stage_end[s] + after);
    }
    const auto plan =
        PlanOfStages(p, stages, std::vector<Bytes>(p.edges.size(), Bytes(64)), DType::kFloat16);
    EXPECT_EQ(ReplayedEnd(plan).ps(), end.ps()) << "round " << round;
  }
  EXPECT_EQ(compared, 40);
}

// CPU launches delay the first kernel by one launch, and nothing else where no kernel is shorter.
TEST(FoldingTest, LaunchesCostTheFirstKernelAlone) {
  TransformerConfig model;
  model.hidden = 1024;
  model.layers = 4;
  model.heads = 8;
  model.vocabulary = 1000;
  model.sequence = 512;
  ParallelMapping m;
  m.global_batch = 4;
  const auto folded = EstimateIteration(model, m, {});
  ASSERT_TRUE(folded.ok());
  LoweringOptions options;
  options.launch = SimTime::FromUs(1);
  ASSERT_GT(folded->passes.layer_forward, SimTime::FromUs(2));
  EXPECT_EQ(ReplayedEnd(PlanOf(model, m, folded->passes), options).ps(),
            (folded->time + options.launch).ps());
}

}  // namespace
}  // namespace foretrace
