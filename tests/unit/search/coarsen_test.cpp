#include "simulator/search/coarsen.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "simulator/search/graphpipe_plan.h"
#include "tests/unit/search/partition_fixture.h"

namespace foretrace {
namespace {

GraphPipeProblem Problem(const std::vector<double>& seconds,
                         const std::vector<std::pair<int32_t, int32_t>>& edges) {
  GraphPipeProblem p;
  for (const double s : seconds) {
    GraphPipeOp op;
    op.forward = {RealSeconds(s)};
    op.backward = {RealSeconds(2 * s)};
    op.fixed_bytes = op.gradient_bytes = op.stash_bytes = RealBytes(s);
    p.ops.push_back(op);
  }
  for (const auto& [from, to] : edges) p.edges.push_back({from, to, RealBytes(1)});
  p.bandwidth = Bandwidth::BytesPerSecond(1);
  return p;
}

// Nothing is lost, and what remains has no cycle.
TEST(CoarsenTest, KeepsWorkAndOrder) {
  std::mt19937 rng(5);
  for (int round = 0; round < 30; ++round) {
    std::vector<double> seconds(20);
    for (double& s : seconds) s = 1 + static_cast<double>(rng() % 5);
    const auto p = Problem(seconds, RandomDag(rng, 20));
    const CoarseProblem coarse = Coarsen(p, 12, 200);
    EXPECT_LE(coarse.members.size(), 12u);
    const auto graph = internal::GraphOf(coarse.problem);
    ASSERT_TRUE(graph.ok()) << graph.status();
    EXPECT_TRUE(DownsetLattice::Enumerate(*graph, 200).ok());
    std::vector<int32_t> all;
    double stash = 0;
    for (size_t i = 0; i < coarse.members.size(); ++i) {
      all.insert(all.end(), coarse.members[i].begin(), coarse.members[i].end());
      stash += coarse.problem.ops[i].stash_bytes.count();
      double forward = 0;
      for (const int32_t op : coarse.members[i]) forward += seconds[static_cast<size_t>(op)];
      EXPECT_DOUBLE_EQ(coarse.problem.ops[i].forward[0].seconds(), forward);
    }
    EXPECT_DOUBLE_EQ(stash, std::accumulate(seconds.begin(), seconds.end(), 0.0));
    std::sort(all.begin(), all.end());
    std::vector<int32_t> expected(20);
    std::iota(expected.begin(), expected.end(), 0);
    EXPECT_EQ(all, expected);
  }
}

// 0 -> 1 -> 2 and 0 -> 2: the smallest is 1, which may join either; joining 0 and 2 first would
// close a cycle through 1.
TEST(CoarsenTest, NeverClosesACycle) {
  const CoarseProblem coarse =
      Coarsen(Problem({1, 9, 2}, {{0, 1}, {1, 2}, {0, 2}}), 2, kAnyDownsets);
  ASSERT_EQ(coarse.members.size(), 2u);
  EXPECT_EQ(coarse.members[0], (std::vector<int32_t>{0, 1}));
}

TEST(CoarsenTest, SmallGraphsStayAndEqualOperatorsGoTogether) {
  const auto p = Problem({5, 1, 5, 1, 5, 1, 5}, {{0, 1}, {1, 2}, {2, 3}, {3, 4}, {4, 5}, {5, 6}});
  EXPECT_EQ(Coarsen(p, 7, 8).members.size(), 7u);
  // Six would do, but the three small ones are alike.
  EXPECT_EQ(Coarsen(p, 6, kAnyDownsets).members.size(), 4u);
}

}  // namespace
}  // namespace foretrace
