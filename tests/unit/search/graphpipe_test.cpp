#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>

#include "simulator/search/graph_searchers.h"
#include "simulator/search/graphpipe.h"
#include "tests/unit/search/partition_fixture.h"

namespace foretrace {
namespace {

// Operators with a fixed cost a pass and a cost a sample, so that larger micro-batches pay.
GraphPipeOp Op(double per_sample, double fixed, double stash, int32_t mini_batch) {
  GraphPipeOp op;
  for (int32_t x = 1; x <= mini_batch; x *= 2) {
    op.forward.emplace_back(fixed + per_sample * x);
    op.backward.emplace_back(fixed + 2 * per_sample * x);
  }
  op.stash_bytes = RealBytes(stash);
  op.gradient_bytes = op.fixed_bytes = RealBytes(1);
  return op;
}

GraphPipeProblem Problem(int32_t ops, std::vector<std::pair<int32_t, int32_t>> edges,
                         int32_t devices, int32_t mini_batch, std::mt19937& rng) {
  GraphPipeProblem p;
  for (int32_t i = 0; i < ops; ++i) {
    p.ops.push_back(Op(1 + static_cast<double>(rng() % 4), 0.5, 1 + static_cast<double>(rng() % 3),
                       mini_batch));
  }
  for (const auto& [from, to] : edges)
    p.edges.push_back({from, to, RealBytes(static_cast<double>(rng() % 3))});
  p.devices = devices;
  p.memory = RealBytes(1e9);
  p.bandwidth = Bandwidth::BytesPerSecond(10);
  p.mini_batch = mini_batch;
  return p;
}

// The shortest iteration of all stage graphs: operators into sets in every way, every order of sets
// in which dependencies go forward, every power of two of devices and size of micro-batch.
double BruteForce(const GraphPipeProblem& p) {
  double best = std::numeric_limits<double>::infinity();
  std::vector<int32_t> set_of(p.ops.size(), 0);
  std::vector<GraphPipeStage> stages;
  const auto devices = [&](const auto& self, size_t at, int32_t left) -> void {
    if (at == stages.size()) {
      for (int32_t b = 1; b <= p.mini_batch; b *= 2) {
        for (GraphPipeStage& s : stages) s.config = {b, 1};
        const auto plan = EvaluateStages(p, stages);
        if (plan.ok()) best = std::min(best, plan->iteration.seconds());
      }
      return;
    }
    for (int32_t d = 1; d <= left; d *= 2) {
      stages[at].devices = d;
      self(self, at + 1, left - d);
    }
  };
  const auto assign = [&](const auto& self, size_t op, int32_t sets) -> void {
    if (op < p.ops.size()) {
      for (int32_t s = 0; s <= sets && s < p.devices; ++s) {
        set_of[op] = s;
        self(self, op + 1, std::max(sets, s + 1));
      }
      return;
    }
    std::vector<int32_t> order(static_cast<size_t>(sets));
    for (int32_t s = 0; s < sets; ++s) order[static_cast<size_t>(s)] = s;
    do {
      stages.assign(static_cast<size_t>(sets), {});
      for (size_t i = 0; i < p.ops.size(); ++i) {
        stages[static_cast<size_t>(order[static_cast<size_t>(set_of[i])])].ops.push_back(
            static_cast<int32_t>(i));
      }
      if (!EvaluateStages(p,
                          [&] {
                            auto probe = stages;
                            for (GraphPipeStage& s : probe) s.config = {p.mini_batch, 1};
                            return probe;
                          }())
               .ok()) {
        continue;
      }
      devices(devices, 0, p.devices);
      // Other orders of independent sets are the same stage graph.
      break;
    } while (std::next_permutation(order.begin(), order.end()));
  };
  assign(assign, 0, 0);
  return best;
}

// The search looks at series-parallel parts and a line, then climbs; on graphs this small that is
// nearly always the optimum.
TEST(GraphPipeTest, NearBruteForce) {
  std::mt19937 rng(7);
  int optimal = 0, cases = 0;
  for (int round = 0; round < 100; ++round) {
    const int32_t ops = 3 + static_cast<int32_t>(rng() % 3);
    const auto p = Problem(ops, RandomDag(rng, ops), 4, 8, rng);
    const double best = BruteForce(p);
    const auto found = SearchGraphPipe(p);
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_GE(found->plan.iteration.seconds(), best * (1 - 1e-9)) << round;
    EXPECT_LE(found->plan.iteration.seconds(), best * 1.05) << round;
    ++cases;
    if (found->plan.iteration.seconds() <= best * (1 + 1e-9)) ++optimal;
  }
  EXPECT_GE(optimal, cases * 9 / 10) << optimal;
  RecordProperty("optimal", optimal);
}

// A line is a stage graph, and refining never lengthens.
TEST(GraphPipeTest, NeverBehindLinesAndPipeDream) {
  std::mt19937 rng(11);
  for (int round = 0; round < 10; ++round) {
    const auto p = Problem(9, RandomDag(rng, 9), 8, 16, rng);
    const auto graph = SearchGraphPipe(p), line = SearchSequential(p),
               pipedream = SearchPipeDream(p);
    ASSERT_TRUE(graph.ok() && line.ok() && pipedream.ok());
    EXPECT_LE(line->plan.iteration.seconds(), pipedream->plan.iteration.seconds() * (1 + 1e-9))
        << round;
    EXPECT_LE(graph->plan.iteration.seconds(), pipedream->plan.iteration.seconds() * (1 + 1e-9))
        << round;
    const auto published = PartitionGraphPipe(p);
    ASSERT_TRUE(published.ok());
    EXPECT_LE(graph->plan.iteration.seconds(), published->iteration.seconds() * (1 + 1e-9))
        << round;
  }
}

// Two branches of one operator each into a third: 5 bytes a sample over a link of 10 bytes/s take
// longer than the third operator, whose stage is stretched to them; in the searched bottleneck and
// the simulation alike. Forward 1 + backward 2 s a sample of the branches; 2 x 5 / 10 = 1 s of the
// join, which computes 0.3 s. The first micro-batch's gradients return after 1 (branch) + 0.5
// (transfer) + 1 (join) + 0.5 = 3 s, and the backward pass takes 2.
TEST(GraphPipeTest, LinksBoundStages) {
  GraphPipeProblem p;
  p.ops = {Op(1, 0, 0, 1), Op(1, 0, 0, 1), Op(0.1, 0, 0, 1)};
  p.edges = {{0, 2, RealBytes(5)}, {1, 2, RealBytes(5)}};
  p.devices = 3;
  p.memory = RealBytes(1e9);
  p.bandwidth = Bandwidth::BytesPerSecond(10);
  std::vector<GraphPipeStage> stages(3);
  for (int32_t s = 0; s < 3; ++s) stages[static_cast<size_t>(s)].ops = {s};
  const auto plan = EvaluateStages(p, stages);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_DOUBLE_EQ(plan->stages[2].time_per_sample.seconds(), 1.0);
  EXPECT_DOUBLE_EQ(plan->bottleneck.seconds(), 3.0);
  EXPECT_NEAR(plan->iteration.seconds(), 5.0, 1e-9);
}

std::string Fault(const GraphPipeProblem& p, const std::vector<GraphPipeStage>& stages) {
  const auto plan = EvaluateStages(p, stages);
  EXPECT_TRUE(absl::IsFailedPrecondition(plan.status())) << plan.status();
  return std::string(plan.status().message());
}

GraphPipeStage Stage(std::vector<int32_t> ops, int32_t devices, StageConfig config) {
  GraphPipeStage stage;
  stage.ops = std::move(ops);
  stage.devices = devices;
  stage.config = config;
  return stage;
}

TEST(GraphPipeTest, ViolatedConditionsAreNamed) {
  std::mt19937 rng(3);
  auto p = Problem(3, {{0, 1}, {1, 2}}, 4, 8, rng);
  p.ops[1].name = "middle";
  EXPECT_EQ(Fault(p, {Stage({0, 1}, 1, {2, 1})}), "C1: operator 2 is in no stage");
  EXPECT_EQ(Fault(p, {Stage({0, 1}, 1, {2, 1}), Stage({1, 2}, 1, {2, 1})}),
            "C1: operator 'middle' is in stages 0 and 1");
  EXPECT_EQ(Fault(p, {Stage({0, 2}, 1, {2, 1}), Stage({1}, 1, {2, 1})}),
            "C2: operator 'middle' of stage 1 feeds 2 of stage 0, which comes before it");
  EXPECT_EQ(Fault(p, {Stage({0, 1, 2}, 1, {3, 1})}),
            "C5: stage 0: micro-batch 3 is no power of two; 2 would be");
  EXPECT_EQ(Fault(p, {Stage({0, 1, 2}, 1, {16, 1})}),
            "C5: stage 0: micro-batches of 16 samples do not divide the mini-batch of 8");
  EXPECT_EQ(
      Fault(p, {Stage({0, 1, 2}, 4, {2, 1})}),
      "C5: stage 0: micro-batches of 2 samples cannot be shared by 4 devices; larger ones or fewer "
      "devices would do");
}

// Two stages of 1 GiB of weights each; the first keeps 2 micro-batches of 4 samples of 1/4 GiB: 3
// GiB, of micro-batches of 2 samples 2 GiB, which fits in 2.5.
TEST(GraphPipeTest, MemorySaysWhatWouldFit) {
  GraphPipeProblem p;
  p.ops = {Op(1, 0, 0.25 * (1 << 30), 8), Op(1, 0, 0, 8)};
  for (GraphPipeOp& op : p.ops) op.fixed_bytes = RealBytes(1 << 30);
  p.edges = {{0, 1, RealBytes(1)}};
  p.devices = 2;
  p.memory = RealBytes(2.5 * (1 << 30));
  p.bandwidth = Bandwidth::BytesPerSecond(1e9);
  p.mini_batch = 8;
  EXPECT_EQ(
      Fault(p, {Stage({0}, 1, {4, 1}), Stage({1}, 1, {4, 1})}),
      "stage 0 (0) needs 3.00 GiB a device, 0.50 more than the 2.50 there are (weights, gradients "
      "and "
      "optimizer 1.00; activations 2.00, of 8 samples in flight on 1 devices); micro-batches of 2 "
      "samples would fit");
  EXPECT_TRUE(EvaluateStages(p, {Stage({0}, 1, {2, 1}), Stage({1}, 1, {2, 1})}).ok());
}

TEST(GraphPipeTest, InfeasibleSaysWhatWouldHelp) {
  std::mt19937 rng(3);
  auto p = Problem(4, {{0, 1}, {1, 2}, {2, 3}}, 2, 8, rng);
  p.memory = RealBytes(0.5);
  const auto found = SearchGraphPipe(p);
  ASSERT_FALSE(found.ok());
  EXPECT_NE(std::string(found.status().message()).find("more devices or memory"),
            std::string::npos);
}

// Two operators, x to y, of one second a sample forward and two backward on a stage each; x keeps
// 10 bytes a sample, and 4 enter it from before. With micro-batches of one sample two are in flight
// at the first stage.
TEST(RecomputedStages, RepeatTheForwardPassAndKeepTheirInputs) {
  GraphPipeProblem p;
  for (int i = 0; i < 3; ++i) p.ops.push_back(Op(1, 0, i == 1 ? 10 : 0, 8));
  p.edges = {{0, 1, RealBytes(4)}, {1, 2, RealBytes()}};
  p.devices = 2;
  p.mini_batch = 8;
  p.memory = RealBytes(1e9);
  p.bandwidth = Bandwidth::BytesPerSecond(1e9);
  std::vector<GraphPipeStage> stages(2);
  stages[0].ops = {0, 1};
  stages[1].ops = {2};
  const auto kept = EvaluateStages(p, stages);
  stages[0].recomputed = {1};
  const auto repeated = EvaluateStages(p, stages);
  ASSERT_TRUE(kept.ok() && repeated.ok()) << repeated.status();
  EXPECT_DOUBLE_EQ(kept->stages[0].memory.count(), 2 + 2 * 10);
  // Two inputs, and the micro-batch at work.
  EXPECT_DOUBLE_EQ(repeated->stages[0].memory.count(), 2 + 2 * 4 + 10);
  EXPECT_NEAR(kept->stages[0].time_per_sample.seconds(), 6, 1e-6);
  EXPECT_NEAR(repeated->stages[0].time_per_sample.seconds(), 7, 1e-6);
  EXPECT_NEAR(TimedPipelineOf(p, *repeated).stages[0].backward[0].seconds(), 5, 1e-6);
  EXPECT_GT(repeated->iteration.seconds(), kept->iteration.seconds() + 6);
  // What both an operator and its recomputed reader need is made again with them.
  stages[0].recomputed = {0, 1};
  EXPECT_DOUBLE_EQ(EvaluateStages(p, stages)->stages[0].memory.count(), 2 + 10);
  stages[0].recomputed = {2};
  EXPECT_EQ(EvaluateStages(p, stages).status().code(), absl::StatusCode::kFailedPrecondition);
}

// Where activations do not fit, both programs recompute; where they do, neither.
TEST(RecomputedStages, PiperAndPhazeRecomputeWhereMemoryAsks) {
  GraphPipeProblem p;
  for (int i = 0; i < 8; ++i) {
    p.ops.push_back(Op(1, 0.01, 10, 32));
    if (i > 0) p.edges.push_back({i - 1, i, RealBytes(0.5)});
  }
  p.devices = 4;
  p.mini_batch = 32;
  p.bandwidth = Bandwidth::BytesPerSecond(1e9);
  for (const auto& search : {SearchPiper, SearchPhaze}) {
    p.memory = RealBytes(1e9);
    const auto roomy = search(p);
    p.memory = RealBytes(33);
    const auto tight = search(p);
    ASSERT_TRUE(roomy.ok() && tight.ok()) << tight.status();
    const auto repeats = [](const GraphSearchResult& r) {
      return std::any_of(r.plan.stages.begin(), r.plan.stages.end(),
                         [](const auto& s) { return !s.recomputed.empty(); });
    };
    EXPECT_FALSE(repeats(*roomy));
    EXPECT_TRUE(repeats(*tight));
    EXPECT_GT(tight->plan.iteration.seconds(), roomy->plan.iteration.seconds());
    for (const GraphPipeStage& s : tight->plan.stages) EXPECT_LE(s.memory.count(), 33);
  }
}

}  // namespace
}  // namespace foretrace
