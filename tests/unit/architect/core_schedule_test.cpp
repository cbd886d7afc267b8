#include "simulator/architect/core_schedule.h"

#include <gtest/gtest.h>

#include <random>

#include "simulator/architect/core_milp.h"
#include "simulator/architect/core_search.h"

namespace foretrace {
namespace {

SimTime Ns(int64_t ns) { return SimTime::FromNs(ns); }

CoreOp Make(CoreClass core, int64_t one, int64_t all) {
  return {std::string(Name(core)), core, Ns(one), Ns(all)};
}
constexpr CoreClass kT = CoreClass::kTensor, kV = CoreClass::kVector, kF = CoreClass::kFused;

// V4/2; Q, K, V of T10/6; T8/5 of two of them; V6/3; T8/5 with the third; F12/8.
CoreGraph Attention() {
  return {{Make(kV, 4, 2), Make(kT, 10, 6), Make(kT, 10, 6), Make(kT, 10, 6), Make(kT, 8, 5),
           Make(kV, 6, 3), Make(kT, 8, 5), Make(kF, 12, 8)},
          {{0, 1}, {0, 2}, {0, 3}, {1, 4}, {2, 4}, {4, 5}, {5, 6}, {3, 6}, {6, 7}}};
}

// V2/1; four branches of T5/4, V3/2; F6/5.
CoreGraph Branches() {
  CoreGraph g;
  g.ops.push_back(Make(kV, 2, 1));
  for (int32_t b = 0; b < 4; ++b) {
    g.ops.push_back(Make(kT, 5, 4));
    g.ops.push_back(Make(kV, 3, 2));
    g.edges.insert(g.edges.end(), {{0, 1 + 2 * b}, {1 + 2 * b, 2 + 2 * b}, {2 + 2 * b, 9}});
  }
  g.ops.push_back(Make(kF, 6, 5));
  return g;
}

struct Case {
  CoreCounts cores;
  int64_t optimum;
};
constexpr Case kAttentionCases[] = {
    {{1, 1}, 41}, {{2, 1}, 38}, {{2, 2}, 38}, {{3, 2}, 33}, {{4, 4}, 33}};
constexpr Case kBranchCases[] = {{{1, 1}, 26}, {{2, 1}, 21}, {{2, 2}, 19}, {{4, 4}, 14}};

TEST(CoreScheduleTest, ReferenceCasesAreProvenOptimal) {
  const auto check = [](const CoreGraph& graph, const Case& c) {
    const auto schedule = ScheduleCores(graph, c.cores);
    ASSERT_TRUE(schedule.ok()) << schedule.status();
    EXPECT_EQ(schedule->makespan, Ns(c.optimum)) << c.cores.tensor << " " << c.cores.vector;
    EXPECT_TRUE(schedule->optimal());
    EXPECT_EQ(ViolationIn(graph, c.cores, *schedule), "");
  };
  for (const Case& c : kAttentionCases) check(Attention(), c);
  for (const Case& c : kBranchCases) check(Branches(), c);
}

// The integer program by itself, from the list schedule on.
CoreSchedule ByProgram(const CoreGraph& graph, const CoreCounts& cores, int64_t nodes) {
  const auto order = CheckedOrder(graph);
  const auto found =
      ImproveByMilp(graph, *order, cores, ListSchedule(graph, *order, cores), {10 * nodes});
  EXPECT_TRUE(found.ok()) << found.status();
  return found.ok() ? *found : CoreSchedule();
}

// The search by itself.
CoreSchedule BySearch(const CoreGraph& graph, const CoreCounts& cores, int64_t states) {
  return SearchSchedule(graph, *CheckedOrder(graph), cores, {states});
}

TEST(CoreScheduleTest, ProgramAndSearchProveTheReferenceCasesEach) {
  const auto check = [](const CoreGraph& graph, const Case& c) {
    for (const CoreSchedule& found :
         {ByProgram(graph, c.cores, 2000), BySearch(graph, c.cores, 2000)}) {
      EXPECT_EQ(found.makespan, Ns(c.optimum)) << c.cores.tensor << " " << c.cores.vector;
      EXPECT_TRUE(found.optimal());
      EXPECT_EQ(ViolationIn(graph, c.cores, found), "");
    }
  };
  for (const Case& c : kAttentionCases) check(Attention(), c);
  for (const Case& c : kBranchCases) check(Branches(), c);
}

// All schedules in which operators start in some order, each as early as that allows.
class BruteForce {
 public:
  BruteForce(const CoreGraph& graph, const CoreCounts& cores)
      : g_(graph), tensor_(cores.tensor), vector_(cores.vector), end_(graph.ops.size()) {}

  int64_t Run() {
    Place(0, 0, 0, 0);
    return best_;
  }

 private:
  void Place(unsigned placed, int64_t last_start, int64_t makespan, int64_t alone_until) {
    if (makespan >= best_) return;
    if (placed + 1 == 1u << g_.ops.size()) {
      best_ = makespan;
      return;
    }
    for (size_t i = 0; i < g_.ops.size(); ++i) {
      if (placed >> i & 1) continue;
      int64_t ready = std::max(last_start, alone_until);
      bool waits = false;
      for (const auto& [from, to] : g_.edges) {
        if (to != static_cast<int32_t>(i)) continue;
        waits |= !(placed >> from & 1);
        ready = std::max(ready, end_[static_cast<size_t>(from)]);
      }
      if (!waits) PlaceOne(i, placed, ready, makespan, alone_until);
    }
  }

  void PlaceOne(size_t i, unsigned placed, int64_t ready, int64_t makespan, int64_t alone_until) {
    const CoreOp& op = g_.ops[i];
    const bool tensor = op.core != kV, vector = op.core != kT;
    const size_t count = tensor && vector ? std::min(tensor_.size(), vector_.size())
                         : tensor         ? tensor_.size()
                                          : vector_.size();
    for (size_t c = 0; c < count; ++c) {
      const int64_t was_t = c < tensor_.size() ? tensor_[c] : 0;
      const int64_t was_v = c < vector_.size() ? vector_[c] : 0;
      const int64_t start = std::max({ready, tensor ? was_t : 0, vector ? was_v : 0});
      end_[i] = start + op.one.ps();
      if (tensor) tensor_[c] = end_[i];
      if (vector) vector_[c] = end_[i];
      Place(placed | 1u << i, start, std::max(makespan, end_[i]), alone_until);
      if (tensor) tensor_[c] = was_t;
      if (vector) vector_[c] = was_v;
    }
    const int64_t start = std::max(ready, makespan);
    end_[i] = start + op.all.ps();
    Place(placed | 1u << i, start, end_[i], end_[i]);
  }

  const CoreGraph& g_;
  std::vector<int64_t> tensor_, vector_, end_;
  int64_t best_ = INT64_MAX;
};

CoreGraph RandomGraph(std::mt19937& random, int32_t n) {
  const auto pick = [&](int low, int high) {
    return low + static_cast<int>(random() % static_cast<unsigned>(high - low + 1));
  };
  CoreGraph g;
  for (int32_t i = 0; i < n; ++i) {
    const int one = pick(1, 12);
    g.ops.push_back(Make(static_cast<CoreClass>(pick(0, 2)), one, pick(1, one + 1)));
    for (int32_t j = 0; j < i; ++j) {
      if (pick(0, 99) < 30) g.edges.emplace_back(j, i);
    }
  }
  return g;
}

TEST(CoreScheduleTest, RandomGraphsEqualBruteForce) {
  std::mt19937 random(7);
  int improved = 0;
  for (int round = 0; round < 200; ++round) {
    const CoreGraph g = RandomGraph(random, 1 + round % 9);
    const CoreCounts cores{1 + static_cast<int32_t>(random() % 3),
                           1 + static_cast<int32_t>(random() % 3)};
    const auto found = ScheduleCores(g, cores);
    ASSERT_TRUE(found.ok()) << found.status();
    const int64_t optimum = BruteForce(g, cores).Run();
    for (const CoreSchedule& s : {*found, ByProgram(g, cores, 2000), BySearch(g, cores, 100'000)}) {
      ASSERT_EQ(s.makespan.ps(), optimum) << "round " << round;
      ASSERT_TRUE(s.optimal()) << "round " << round;
      ASSERT_EQ(ViolationIn(g, cores, s), "") << "round " << round;
    }
    const auto order = CheckedOrder(g);
    const CoreSchedule list = ListSchedule(g, *order, cores);
    ASSERT_EQ(ViolationIn(g, cores, list), "") << "round " << round;
    ASSERT_LE(list.bound, found->makespan);
    improved += found->makespan < list.makespan ? 1 : 0;
  }
  EXPECT_GT(improved, 20);  // list scheduling alone would not pass
}

// Bounds hold where a limit ends the program too, and what it found is a schedule.
TEST(CoreScheduleTest, ProgramsBoundsHoldAtEveryLimit) {
  std::mt19937 random(23);
  int ended = 0;
  for (int round = 0; round < 60; ++round) {
    const CoreGraph g = RandomGraph(random, 8);
    const CoreCounts cores{1 + static_cast<int32_t>(random() % 2), 2};
    const SimTime optimum = BySearch(g, cores, 100'000).makespan;
    for (const int64_t nodes : {1, 2, 5}) {
      const CoreSchedule found = ByProgram(g, cores, nodes);
      ASSERT_LE(found.bound, optimum) << round << " " << nodes;
      ASSERT_GE(found.makespan, optimum) << round << " " << nodes;
      ASSERT_EQ(ViolationIn(g, cores, found), "") << round << " " << nodes;
      ended += found.optimal() ? 0 : 1;
    }
  }
  EXPECT_GT(ended, 10);
}

// Chains of two GEMMs, a vector operator, a GEMM and a vector operator: the one tensor core
// is never idle but while the last vector operator runs, which neither path nor load knows.
TEST(CoreScheduleTest, WindowsBoundWhatWaitsForTheLastOperator) {
  CoreGraph g;
  for (int32_t chain = 0; chain < 5; ++chain) {
    for (const CoreOp& op :
         {Make(kT, 20, 20), Make(kT, 21, 21), Make(kV, 5, 5), Make(kT, 22, 22), Make(kV, 7, 7)}) {
      const auto at = static_cast<int32_t>(g.ops.size());
      if (at % 5 != 0) g.edges.emplace_back(at - 1, at);
      g.ops.push_back(op);
    }
  }
  const CoreCounts cores{1, 64};
  const auto order = CheckedOrder(g);
  EXPECT_EQ(MakespanBound(g, *order, cores), Ns(5 * 63));
  const CoreSchedule found = ByProgram(g, cores, 1);
  EXPECT_EQ(found.makespan, Ns(5 * 63 + 7));
  EXPECT_TRUE(found.optimal());
}

// A limit of no state or node at all leaves the list schedule, and the bound says so.
TEST(CoreScheduleTest, LimitLeavesAGap) {
  const auto schedule = ScheduleCores(Branches(), {2, 2}, {0});
  ASSERT_TRUE(schedule.ok());
  EXPECT_EQ(ViolationIn(Branches(), {2, 2}, *schedule), "");
  EXPECT_LE(schedule->bound, Ns(19));
  EXPECT_GE(schedule->makespan, Ns(19));
}

TEST(CoreScheduleTest, BadGraphs) {
  CoreGraph cyclic = Attention();
  cyclic.edges.emplace_back(7, 0);
  const auto cycle = ScheduleCores(cyclic, {1, 1});
  EXPECT_EQ(cycle.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(cycle.status().message().find("cycle"), std::string::npos);
  CoreGraph unclassed = Attention();
  unclassed.ops[3].core = CoreClass::kCount;
  EXPECT_NE(ScheduleCores(unclassed, {1, 1}).status().message().find("no class"),
            std::string::npos);
  EXPECT_FALSE(ScheduleCores(Attention(), {0, 1}).ok());
  EXPECT_FALSE(ScheduleCores({}, {1, 1}).ok());
  CoreGraph dangling = Attention();
  dangling.edges.emplace_back(0, 99);
  EXPECT_FALSE(ScheduleCores(dangling, {1, 1}).ok());
}

}  // namespace
}  // namespace foretrace
