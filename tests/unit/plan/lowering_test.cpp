#include "simulator/plan/lowering.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/ring_plan.h"

namespace foretrace {
namespace {

const SimTime kUs = SimTime::FromUs(1);

// Two stages of one device, one kernel a pass, `count` micro-batches one after another.
JobPlan TwoStages(int32_t count) {
  JobPlan plan;
  plan.name = "two stages";
  plan.shorter = "Fewer micro-batches give shorter";
  plan.producer = "test";
  plan.mini_batch = count;
  plan.links = plan.AddGroup("pipeline", {{0, 1}});
  for (int32_t s = 0; s < 2; ++s) {
    PlannedStage stage;
    stage.source = "stage " + std::to_string(s);
    stage.ranks = {s};
    stage.passes = GPipeSchedule(count);
    stage.bodies.resize(2);
    for (PlanBody& body : stage.bodies) body.Kernel(OfPass(), kUs, AfterInputs());
    for (const Pass& pass : stage.passes) {
      stage.body_of.push_back(pass.kind == PassKind::kForward ? 0 : 1);
    }
    stage.end.Kernel(Named("optimizer"), kUs);
    plan.stages.push_back(std::move(stage));
  }
  plan.edges.push_back({{0, 0, 1, 0, kUs, kUs}, Bytes(100)});
  return plan;
}

TraceStore Lowered(const JobPlan& plan, const LoweringOptions& options = {}) {
  auto store = Lower(plan, options);
  EXPECT_TRUE(store.ok()) << store.status();
  return *std::move(store);
}

// Three devices pass on to the next at once: one exchange, in which nobody waits for a turn.
TEST(Lowering, NeighboursPassOn) {
  const TraceStore store = Lowered(RingPlan(kUs));
  for (size_t rank = 0; rank < 3; ++rank) {
    const RankTrace& trace = store.ranks()[rank];
    const CommAttr* comm = trace.comm(NodeIndex(0));
    ASSERT_NE(comm, nullptr);
    std::vector<int64_t> sent(3, 0), received(3, 0);
    sent[(rank + 1) % 3] = received[(rank + 2) % 3] = 100;
    EXPECT_THAT(trace.in_splits(*comm), testing::ElementsAreArray(sent));
    EXPECT_THAT(trace.out_splits(*comm), testing::ElementsAreArray(received));
  }
}

// "name kind peer tag" of what a rank communicates, in order.
std::vector<std::string> MessagesOf(const TraceStore& store, size_t rank) {
  std::vector<std::string> out;
  const RankTrace& trace = store.ranks()[rank];
  for (uint32_t n = 0; n < trace.size(); ++n) {
    const NodeIndex node(n);
    const NodeKind kind = trace.kind(node);
    if (kind != NodeKind::kSend && kind != NodeKind::kRecv) continue;
    const CommAttr& comm = *trace.comm(node);
    out.push_back(std::string(store.name(trace, node)) + " " + std::to_string(comm.peer) + " " +
                  std::to_string(comm.tag));
  }
  return out;
}

std::vector<std::string> ProducersOf(const TraceStore& store, size_t rank, std::string_view name) {
  const RankTrace& trace = store.ranks()[rank];
  std::vector<std::string> out;
  for (uint32_t n = 0; n < trace.size(); ++n) {
    if (store.name(trace, NodeIndex(n)) != name) continue;
    for (const Dependency& d : trace.dependencies(NodeIndex(n))) {
      out.emplace_back(store.name(trace, d.producer));
    }
  }
  return out;
}

// Tags: (edge * 2 + direction) * micro-batches + micro-batch.
TEST(Lowering, MessagesOfBothEndsMeet) {
  const TraceStore store = Lowered(TwoStages(2));
  EXPECT_EQ(MessagesOf(store, 0),
            (std::vector<std::string>{
                "send forward micro-batch 0 1 0", "send forward micro-batch 1 1 1",
                "recv backward micro-batch 0 1 2", "recv backward micro-batch 1 1 3"}));
  EXPECT_EQ(MessagesOf(store, 1),
            (std::vector<std::string>{
                "recv forward micro-batch 0 0 0", "recv forward micro-batch 1 0 1",
                "send backward micro-batch 0 0 2", "send backward micro-batch 1 0 3"}));
}

// A kernel waits for the kernel before it; of what it receives and what it names besides.
TEST(Lowering, KernelsWaitForKernelsAndInputs) {
  const TraceStore store = Lowered(TwoStages(2));
  EXPECT_EQ(ProducersOf(store, 1, "forward micro-batch 0"),
            (std::vector<std::string>{"recv forward micro-batch 0"}));
  EXPECT_EQ(ProducersOf(store, 1, "forward micro-batch 1"),
            (std::vector<std::string>{"forward micro-batch 0", "recv forward micro-batch 1"}));
  EXPECT_EQ(ProducersOf(store, 0, "send forward micro-batch 1"),
            (std::vector<std::string>{"forward micro-batch 1"}));
}

TEST(Lowering, ASendThatHoldsIsWaitedFor) {
  JobPlan plan = TwoStages(2);
  plan.edges[0].holds = true;
  const TraceStore store = Lowered(plan);
  EXPECT_EQ(ProducersOf(store, 0, "forward micro-batch 1"),
            (std::vector<std::string>{"send forward micro-batch 0"}));
}

// A mark is of an earlier body: the optimizer waits for the last one, a pass for that before it,
// and what it sends for its own.
TEST(Lowering, MarksReachLaterBodies) {
  JobPlan plan = TwoStages(2);
  PlanStep exchange;
  exchange.name = OfPass("reduce ");
  exchange.group = plan.links;
  exchange.op = CollectiveOp::kAllReduce;
  exchange.mark = 0;
  for (PlannedStage& stage : plan.stages) {
    stage.bodies[1].Exchange(exchange, {AfterKernels().front(), TheMark(0)});
    stage.bodies[1].output = {TheMark(0)};
    stage.end.steps[0].awaits = {TheMark(0)};
  }
  const TraceStore store = Lowered(plan);
  using Names = std::vector<std::string>;
  EXPECT_EQ(ProducersOf(store, 0, "reduce backward micro-batch 0"),
            (Names{"backward micro-batch 0"}));
  EXPECT_EQ(ProducersOf(store, 0, "reduce backward micro-batch 1"),
            (Names{"reduce backward micro-batch 0", "backward micro-batch 1"}));
  EXPECT_EQ(ProducersOf(store, 1, "send backward micro-batch 1"),
            (Names{"reduce backward micro-batch 1"}));
  EXPECT_EQ(ProducersOf(store, 0, "optimizer"),
            (Names{"backward micro-batch 1", "reduce backward micro-batch 1"}));
}

// Of 4 devices (2 replicas of 2) and 2 (1 of 2), each of a replica sends to its place;
// micro-batches of 1 sample are sent two at a time, after the second.
TEST(Lowering, ReplicasThatShareSamplesExchange) {
  JobPlan plan = TwoStages(4);
  plan.groups.clear();
  plan.links = plan.AddGroup("world", {{0, 1, 2, 3, 4, 5}});
  plan.stages[0].ranks = {0, 1, 2, 3};
  plan.stages[0].tensor = 2;
  plan.stages[1].ranks = {4, 5};
  plan.stages[1].tensor = 2;
  plan.stages[1].micro_batch = 2;
  plan.stages[1].passes = GPipeSchedule(2);
  const TraceStore store = Lowered(plan);
  EXPECT_EQ(MessagesOf(store, 3),
            (std::vector<std::string>{
                "send forward micro-batch 1 5 0", "send forward micro-batch 3 5 1",
                "recv backward micro-batch 0 5 4", "recv backward micro-batch 2 5 5"}));
  EXPECT_EQ(MessagesOf(store, 4),
            (std::vector<std::string>{
                "recv forward micro-batch 0 0 0", "recv forward micro-batch 0 2 0",
                "recv forward micro-batch 1 0 1", "recv forward micro-batch 1 2 1",
                "send backward micro-batch 0 0 4", "send backward micro-batch 0 2 4",
                "send backward micro-batch 1 0 5", "send backward micro-batch 1 2 5"}));
}

// One call for each kernel and message, in the order of issue.
TEST(Lowering, LaunchesAreOfTheCpu) {
  LoweringOptions options;
  options.launch = kUs;
  const TraceStore plain = Lowered(TwoStages(2)), launched = Lowered(TwoStages(2), options);
  for (size_t rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(launched.ranks()[rank].size(), 2 * plain.ranks()[rank].size());
  }
  EXPECT_EQ(ProducersOf(launched, 0, "forward micro-batch 0"),
            (std::vector<std::string>{"launch"}));
}

// 3,000 micro-batches, each forward and backward, of 2,000 kernels on two devices.
TEST(Lowering, TooManyNodesAreRefused) {
  JobPlan plan = TwoStages(3000);
  for (PlannedStage& stage : plan.stages) {
    for (PlanBody& body : stage.bodies) {
      for (int i = 1; i < 2000; ++i) body.Kernel(OfPass(), kUs);
    }
  }
  EXPECT_EQ(Lower(plan, {}).status().message(),
            "two stages: its traces would have 2.4e+07 nodes; the limit is 2e+07. Fewer "
            "micro-batches give shorter ones");
}

TEST(Lowering, GroupsOfOneDeviceAreNone) {
  JobPlan plan;
  EXPECT_EQ(plan.AddGroup("tensor", {{0}, {1}}), kNoGroup);
  EXPECT_EQ(plan.AddGroup("data", {{0, 1}, {2}}), 0);
  EXPECT_EQ(plan.groups[0].sets, (std::vector<std::vector<int32_t>>{{0, 1}}));
}

}  // namespace
}  // namespace foretrace
