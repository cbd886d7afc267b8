#include "simulator/network/fluid/solver.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace foretrace {
namespace {

// Textbook progressive filling, all flows and links at once.
std::vector<double> BruteForceRates(const std::vector<double>& capacity,
                                    const std::vector<std::vector<uint32_t>>& routes) {
  std::vector<double> rate(routes.size(), -1);
  std::vector<double> left = capacity;
  for (;;) {
    double best = 1e300;
    uint32_t tightest = 0;
    for (uint32_t l = 0; l < capacity.size(); ++l) {
      double flows = 0;
      for (size_t f = 0; f < routes.size(); ++f) {
        if (rate[f] < 0)
          flows += static_cast<double>(std::count(routes[f].begin(), routes[f].end(), l));
      }
      if (flows > 0 && left[l] / flows < best) {
        best = left[l] / flows;
        tightest = l;
      }
    }
    if (best == 1e300) return rate;
    for (size_t f = 0; f < routes.size(); ++f) {
      if (rate[f] >= 0 ||
          std::find(routes[f].begin(), routes[f].end(), tightest) == routes[f].end()) {
        continue;
      }
      rate[f] = best;
      for (uint32_t l : routes[f]) left[l] -= best;
    }
  }
}

TEST(FluidSolver, SharesAsBruteForceDoesThroughStartsAndCompletions) {
  std::mt19937 random(11);
  for (int round = 0; round < 60; ++round) {
    FluidSolver solver;
    const uint32_t link_count = 2 + random() % 12;
    std::vector<double> capacity;
    for (uint32_t l = 0; l < link_count; ++l) {
      capacity.push_back(1 + static_cast<double>(random() % 5));
      solver.AddLink(Bandwidth::BytesPerSecond(capacity.back()));
    }
    std::vector<std::vector<uint32_t>> routes;
    std::vector<FluidSolver::FlowIndex> active;
    std::vector<std::vector<uint32_t>> active_routes;
    size_t started = 0;
    size_t completed_count = 0;
    while (started < 40 || !active.empty()) {
      if (started < 40 && (active.empty() || random() % 3 != 0)) {
        std::vector<uint32_t> route;
        for (uint32_t l = 0; l < link_count; ++l) {
          if (random() % 4 == 0) route.push_back(l);
        }
        if (route.empty()) route.push_back(random() % link_count);
        active.push_back(solver.Start(solver.AddRoute(route),
                                      RealBytes(1.0 + static_cast<double>(random() % 9))));
        active_routes.push_back(route);
        ++started;
      } else {
        std::vector<FluidSolver::FlowIndex> completed;
        solver.AdvanceTo(solver.NextTime(), completed);
        for (auto flow : completed) {
          const auto at = std::find(active.begin(), active.end(), flow) - active.begin();
          active.erase(active.begin() + at);
          active_routes.erase(active_routes.begin() + at);
          ++completed_count;
        }
      }
      if (random() % 5 == 0) solver.DropIdleRoutes();
      const auto expected = BruteForceRates(capacity, active_routes);
      for (size_t f = 0; f < active.size(); ++f) {
        ASSERT_NEAR(solver.Rate(active[f]).bytes_per_second(), expected[f], 1e-9 * expected[f]);
      }
      ASSERT_EQ(solver.active_flows(), active.size());
    }
    EXPECT_EQ(completed_count, 40u);
  }
}

// One link of 10 B/s. 100 B start at 0, 25 B at 2: alone until 2 (20 B done), then 5 B/s each; the
// second ends at 7, the first has 55 B left and ends at 12.5.
TEST(FluidSolver, HandComputedTimes) {
  FluidSolver solver;
  const uint32_t link = solver.AddLink(Bandwidth::BytesPerSecond(10));
  const std::vector<uint32_t> links = {link};
  const auto route = solver.AddRoute(links);
  std::vector<FluidSolver::FlowIndex> completed;
  const auto first = solver.Start(route, RealBytes(100));
  EXPECT_EQ(solver.NextTime(), RealSeconds(10));
  solver.AdvanceTo(RealSeconds(2), completed);
  EXPECT_TRUE(completed.empty());
  const auto second = solver.Start(route, RealBytes(25));
  EXPECT_DOUBLE_EQ(solver.NextTime().seconds(), 7);
  solver.AdvanceTo(solver.NextTime(), completed);
  EXPECT_EQ(completed, std::vector<uint32_t>{second});
  completed.clear();
  // NextTime may name a time that has been overtaken; nothing completes there.
  while (completed.empty()) solver.AdvanceTo(solver.NextTime(), completed);
  EXPECT_DOUBLE_EQ(solver.now().seconds(), 12.5);
  EXPECT_EQ(completed, std::vector<uint32_t>{first});
  EXPECT_EQ(solver.NextTime(), FluidSolver::kNever);
}

}  // namespace
}  // namespace foretrace
