#include "simulator/backends/graph_placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>
#include <set>

namespace foretrace {
namespace {

using testing::ElementsAre;

constexpr SimTime kLaunch = SimTime::FromNs(10'000);
constexpr int32_t kLibrary = 0, kEngine = 1;

SimTime Us(int64_t us) { return SimTime::FromNs(us * 1000); }

ViewedOp Op(int32_t id, std::vector<int32_t> inputs) {
  return {"op" + std::to_string(id), "relu", std::move(inputs), "1x8", {}, {}};
}

OperatorView Chain(int32_t size) {
  std::vector<ViewedOp> ops;
  for (int32_t i = 0; i < size; ++i) ops.push_back(Op(i, {i - 1}));
  return OperatorView("chain", std::move(ops));
}

// a -> b -> d and a -> c -> d
OperatorView Diamond() {
  return OperatorView("diamond", {Op(0, {-1}), Op(1, {0}), Op(2, {0}), Op(3, {1, 2})});
}

TEST(NeighbouringOps, ACallDoesNotWaitForItself) {
  // a and d without c: d would wait for c, and c for a, which is in the same call.
  EXPECT_THAT(NeighbouringOps(Diamond(), {0, 1, 3}),
              ElementsAre(ElementsAre(0, 1), ElementsAre(3)));
  EXPECT_THAT(NeighbouringOps(Diamond(), {0, 1, 2, 3}), ElementsAre(ElementsAre(0, 1, 2, 3)));
  EXPECT_THAT(NeighbouringOps(Diamond(), {1, 2}), ElementsAre(ElementsAre(1), ElementsAre(2)));
}

// On the engine each of three operators takes 12 us measured alone, of which 6 are a call's; on the
// library 4 us. By operator the library is best: 3 (4 + 10) = 42. In one call the engine takes
// 3 * 6 + 6 + 10 = 34.
TEST(GraphPlacement, AChainIsWorthOneCall) {
  const OperatorView dag = Chain(3);
  std::vector<KernelChoice> choices;
  for (int32_t op = 0; op < 3; ++op) {
    choices.push_back({{op}, kLibrary, Us(4)});
    choices.push_back({{op}, kEngine, Us(12)});
  }
  const auto op_level = PlaceOps(dag, choices, kLaunch);
  ASSERT_TRUE(op_level.ok());
  EXPECT_EQ(op_level->cost, Us(42));
  const auto graph = PlaceGraph(dag, choices, kLaunch, *op_level, {kEngine, Us(6)}, {});
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_EQ(graph->evolved.cost, Us(34));
  EXPECT_EQ(graph->exact.cost, Us(34));
  EXPECT_THAT(graph->exact.calls, ElementsAre(0, 0, 0));
  EXPECT_TRUE(graph->proven);
  EXPECT_EQ(graph->bound, Us(34));
}

// As above, calls launched in 1 us: 3 * 6 + 6 + 1.
TEST(GraphPlacement, ACallIsLaunchedAsItsBackendLaunches) {
  const OperatorView dag = Chain(3);
  std::vector<KernelChoice> choices;
  for (int32_t op = 0; op < 3; ++op) {
    choices.push_back({{op}, kLibrary, Us(4)});
    choices.push_back({{op}, kEngine, Us(12)});
    choices.back().launch = Us(1);
  }
  const auto op_level = PlaceOps(dag, choices, kLaunch);
  ASSERT_TRUE(op_level.ok());
  EXPECT_EQ(op_level->cost, Us(39));  // 3 (12 + 1)
  const auto graph = PlaceGraph(dag, choices, kLaunch, *op_level, {kEngine, Us(6), Us(1)}, {});
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_EQ(graph->evolved.cost, Us(25));
  EXPECT_EQ(graph->exact.cost, Us(25));
}

TEST(GraphPlacement, ModelledTimesHoldNoCall) {
  EXPECT_EQ((EngineCall{kEngine, Us(6)}).Within({{0}, kEngine, Us(8), EstimateSource::kAnalytic}),
            Us(8));
  EXPECT_EQ((EngineCall{kEngine, Us(6)}).Within({{0}, kEngine, Us(8)}), Us(2));
  EXPECT_EQ((EngineCall{kEngine, Us(6)}).Within({{0}, kEngine, Us(5)}), SimTime());
}

// What a placement with calls costs, from its definition.
SimTime CostOf(std::span<const KernelChoice> choices, const OpPlacement& placed,
               const EngineCall& engine) {
  SimTime sum;
  std::set<int32_t> calls;
  for (size_t i = 0; i < placed.choices.size(); ++i) {
    const KernelChoice& kernel = choices[static_cast<size_t>(placed.choices[i])];
    if (placed.calls[i] < 0) {
      sum += kernel.time + kLaunch;
      continue;
    }
    EXPECT_EQ(kernel.backend, engine.backend);
    sum += engine.Within(kernel);
    if (calls.insert(placed.calls[i]).second) sum += engine.fixed + kLaunch;
  }
  return sum;
}

// Every assignment of a chain's operators to library, engine alone, and engine in the call before.
SimTime BruteForceOfChain(std::span<const KernelChoice> choices, int32_t size,
                          const EngineCall& engine) {
  SimTime best = SimTime::Max();
  const auto total = static_cast<int64_t>(std::pow(4, size));
  for (int64_t code = 0; code < total; ++code) {
    SimTime cost;
    bool in_call = false, possible = true;
    int64_t rest = code;
    for (int32_t op = 0; op < size && possible; ++op, rest /= 4) {
      const KernelChoice& library = choices[static_cast<size_t>(2 * op)];
      const KernelChoice& own = choices[static_cast<size_t>(2 * op + 1)];
      switch (rest % 4) {
        case 0:
          cost += library.time + kLaunch;
          in_call = false;
          break;
        case 1:
          cost += own.time + kLaunch;
          in_call = false;
          break;
        case 2:
          cost += engine.Within(own) + engine.fixed + kLaunch;
          in_call = true;
          break;
        default:
          possible = in_call;
          cost += engine.Within(own);
      }
    }
    if (possible) best = std::min(best, cost);
  }
  return best;
}

TEST(GraphPlacement, EqualsBruteForceOnChains) {
  std::mt19937_64 random(3);
  int with_calls = 0;
  for (int trial = 0; trial < 60; ++trial) {
    const int32_t size = 1 + static_cast<int32_t>(random() % 7);
    const OperatorView dag = Chain(size);
    std::vector<KernelChoice> choices;
    for (int32_t op = 0; op < size; ++op) {
      choices.push_back({{op}, kLibrary, Us(static_cast<int64_t>(1 + random() % 30))});
      choices.push_back({{op}, kEngine, Us(static_cast<int64_t>(6 + random() % 30))});
    }
    const EngineCall engine{kEngine, Us(5)};
    const auto op_level = PlaceOps(dag, choices, kLaunch);
    ASSERT_TRUE(op_level.ok());
    const auto graph = PlaceGraph(dag, choices, kLaunch, *op_level, engine, {});
    ASSERT_TRUE(graph.ok()) << graph.status();
    EXPECT_EQ(graph->exact.cost, BruteForceOfChain(choices, size, engine)) << trial;
    EXPECT_EQ(CostOf(choices, graph->exact, engine), graph->exact.cost);
    EXPECT_EQ(CostOf(choices, graph->evolved, engine), graph->evolved.cost);
    EXPECT_GE(graph->evolved.cost, graph->exact.cost);
    EXPECT_LE(graph->bound, graph->exact.cost);
    with_calls += graph->exact.cost < op_level->cost;
  }
  EXPECT_GT(with_calls, 20);
}

// On any graph: covers every operator once, costs what it says, no call waits for itself.
TEST(GraphPlacement, HoldsOnRandomGraphs) {
  std::mt19937_64 random(11);
  for (int trial = 0; trial < 60; ++trial) {
    const int32_t size = 2 + static_cast<int32_t>(random() % 14);
    std::vector<ViewedOp> ops;
    for (int32_t i = 0; i < size; ++i) {
      std::vector<int32_t> inputs;
      for (uint64_t k = 0; k < 1 + random() % 2; ++k) {
        inputs.push_back(i == 0 ? -1 : static_cast<int32_t>(random() % static_cast<uint64_t>(i)));
      }
      ops.push_back(Op(i, inputs));
    }
    const OperatorView dag("random", std::move(ops));
    std::vector<KernelChoice> choices;
    for (int32_t op = 0; op < size; ++op) {
      choices.push_back({{op}, kLibrary, Us(static_cast<int64_t>(1 + random() % 20))});
      // Some operators are not the engine's.
      if (random() % 5 > 0) {
        choices.push_back({{op}, kEngine, Us(static_cast<int64_t>(6 + random() % 20))});
      }
    }
    const EngineCall engine{kEngine, Us(5)};
    const auto op_level = PlaceOps(dag, choices, kLaunch);
    ASSERT_TRUE(op_level.ok());
    const auto graph = PlaceGraph(dag, choices, kLaunch, *op_level, engine, {});
    ASSERT_TRUE(graph.ok()) << graph.status();
    EXPECT_LE(graph->evolved.cost, op_level->cost) << "all zeroes merge what is the engine's";
    EXPECT_LE(graph->exact.cost, op_level->cost);
    for (const OpPlacement* placed : {&graph->evolved, &graph->exact}) {
      EXPECT_GE(placed->cost, graph->bound);
      EXPECT_EQ(CostOf(choices, *placed, engine), placed->cost);
      std::map<int32_t, std::set<int32_t>> calls;
      std::set<int32_t> done;
      for (size_t i = 0; i < placed->choices.size(); ++i) {
        const KernelChoice& kernel = choices[static_cast<size_t>(placed->choices[i])];
        for (const int32_t op : kernel.ops) {
          EXPECT_TRUE(done.insert(op).second);
          if (placed->calls[i] >= 0) calls[placed->calls[i]].insert(op);
        }
      }
      EXPECT_EQ(done.size(), static_cast<size_t>(size));
      for (const auto& [call, members] : calls) {
        // From each member, forward: nothing outside leads back in.
        std::set<int32_t> behind;
        for (int32_t op = 0; op < size; ++op) {
          bool reads_call = false, reads_behind = false;
          for (const int32_t input : dag.op(op).inputs) {
            reads_call = reads_call || members.contains(input);
            reads_behind = reads_behind || behind.contains(input);
          }
          if (members.contains(op)) {
            EXPECT_FALSE(reads_behind) << trial << ": call " << call << " waits for itself";
          } else if (reads_call || reads_behind) {
            behind.insert(op);
          }
        }
      }
    }
  }
}

// Every cover by kernels, and every way to put the engine's into calls, that can run at all.
class BruteForce {
 public:
  BruteForce(const OperatorView& dag, std::span<const KernelChoice> choices,
             const EngineCall& engine)
      : dag_(dag), choices_(choices), engine_(engine) {}

  SimTime Run() {
    Cover(0);
    return best_;
  }

 private:
  void Cover(uint64_t done) {
    int32_t first = 0;
    while (first < dag_.size() && (done >> first & 1) != 0) ++first;
    if (first == dag_.size()) return Group(0, 0);
    for (const KernelChoice& kernel : choices_) {
      uint64_t ops = 0;
      for (const int32_t op : kernel.ops) ops |= uint64_t{1} << op;
      if (kernel.ops.front() != first || (ops & done) != 0) continue;
      kernels_.push_back(&kernel);
      Cover(done | ops);
      kernels_.pop_back();
    }
  }

  // By kernel: a call of those so far, a new one, or -1 for none.
  void Group(size_t at, int32_t calls) {
    if (at == kernels_.size()) return Judge(calls);
    const int32_t most = kernels_[at]->backend == engine_.backend ? calls : -1;
    for (int32_t call = -1; call <= most; ++call) {
      call_.push_back(call);
      Group(at + 1, calls + (call == calls ? 1 : 0));
      call_.pop_back();
    }
  }

  void Judge(int32_t calls) {
    SimTime cost = Us(0);
    for (int32_t i = 0; i < calls; ++i) cost += engine_.fixed + kLaunch;
    std::vector<int32_t> node(static_cast<size_t>(dag_.size()));
    for (size_t i = 0; i < kernels_.size(); ++i) {
      const KernelChoice& kernel = *kernels_[i];
      cost += call_[i] < 0 ? kernel.time + kLaunch : engine_.Within(kernel);
      for (const int32_t op : kernel.ops) {
        node[static_cast<size_t>(op)] = call_[i] < 0 ? 100 + static_cast<int32_t>(i) : call_[i];
      }
    }
    if (cost < best_ && CanRun(node)) best_ = cost;
  }

  // Takes away what waits for nothing, until nothing is left.
  bool CanRun(const std::vector<int32_t>& node) const {
    std::set<int32_t> left(node.begin(), node.end());
    while (!left.empty()) {
      std::set<int32_t> waiting;
      for (int32_t op = 0; op < dag_.size(); ++op) {
        for (const int32_t input : dag_.op(op).inputs) {
          if (input == kNoProducer) continue;
          const int32_t from = node[static_cast<size_t>(input)];
          if (from != node[static_cast<size_t>(op)] && left.contains(from)) {
            waiting.insert(node[static_cast<size_t>(op)]);
          }
        }
      }
      const size_t before = left.size();
      std::erase_if(left, [&](int32_t n) { return !waiting.contains(n); });
      if (left.size() == before) return false;
    }
    return true;
  }

  const OperatorView& dag_;
  std::span<const KernelChoice> choices_;
  const EngineCall& engine_;
  std::vector<const KernelChoice*> kernels_;
  std::vector<int32_t> call_;
  SimTime best_ = SimTime::Max();
};

TEST(PlaceWithCalls, EqualsBruteForceOnRandomGraphs) {
  std::mt19937_64 random(5);
  const auto draw = [&](uint64_t below) { return static_cast<int32_t>(random() % below); };
  int of_several = 0;
  for (int trial = 0; trial < 150; ++trial) {
    const int32_t size = 2 + draw(6);
    std::vector<ViewedOp> ops;
    for (int32_t i = 0; i < size; ++i) {
      std::vector<int32_t> inputs;
      for (int k = 0; k < 2; ++k) {
        inputs.push_back(i == 0 || draw(4) == 0 ? -1 : draw(static_cast<uint64_t>(i)));
      }
      ops.push_back(Op(i, inputs));
    }
    const OperatorView dag("random", std::move(ops));
    std::vector<KernelChoice> choices;
    for (int32_t op = 0; op < size; ++op) {
      choices.push_back({{op}, kLibrary, Us(1 + draw(20))});
      if (draw(6) > 0) choices.push_back({{op}, kEngine, Us(6 + draw(20))});
      // With its only reader, as one kernel.
      if (dag.consumers(op).size() == 1) {
        choices.push_back({{op, dag.consumers(op).front()}, draw(2), Us(6 + draw(30))});
      }
    }
    const EngineCall engine{kEngine, Us(5)};
    const auto placed = PlaceWithCalls(dag, choices, kLaunch, engine);
    ASSERT_TRUE(placed.ok()) << placed.status();
    EXPECT_TRUE(placed->proven);
    EXPECT_EQ(placed->placement.cost, BruteForce(dag, choices, engine).Run()) << trial;
    EXPECT_EQ(CostOf(choices, placed->placement, engine), placed->placement.cost) << trial;
    of_several += std::ranges::any_of(placed->placement.calls, [](int32_t c) { return c >= 0; });
    // With room for one frontier: no better, and it says so where it is worse.
    const auto narrow = PlaceWithCalls(dag, choices, kLaunch, engine, SimTime::Max(), 1);
    ASSERT_TRUE(narrow.ok());
    if (narrow->placement.choices.empty()) continue;
    EXPECT_GE(narrow->placement.cost, placed->placement.cost);
    EXPECT_LE(narrow->bound, placed->placement.cost);
    EXPECT_EQ(narrow->proven && narrow->placement.cost > placed->placement.cost, false);
  }
  EXPECT_GT(of_several, 50);
}

// Of chains the greatest bounds are what each operator costs.
TEST(PlaceWithCalls, BoundsOfOperatorsSumUpToNoMoreThanAPlacement) {
  const std::vector<KernelChoice> choices = {{{0}, 0, Us(9)}, {{1}, 0, Us(4)}, {{0, 1}, 0, Us(8)}};
  const std::vector<SimTime> costs = {Us(9), Us(4), Us(8)};
  // Shares of 8 / 2 = 4 each; the fused kernel is used up by them.
  EXPECT_THAT(OperatorBounds(2, choices, costs), ElementsAre(Us(4), Us(4)));
  const std::vector<SimTime> dear = {Us(9), Us(4), Us(20)};
  EXPECT_THAT(OperatorBounds(2, choices, dear), ElementsAre(Us(9), Us(4)));
}

}  // namespace
}  // namespace foretrace
