#include "simulator/optimise/milp.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <thread>

namespace foretrace {
namespace {

MilpSolution Solved(const MilpProblem& problem) {
  const auto solution = SolveMilp(problem);
  EXPECT_TRUE(solution.ok()) << solution.status();
  return solution.ok() ? *solution : MilpSolution();
}

class Milp : public testing::Test {
 protected:
  void SetUp() override {
    const auto probe = SolveMilp({{{0, 1, 1, false}}, {}, {}, 0, 0});
    if (probe.status().message().find("is not installed") != absl::string_view::npos) {
      GTEST_SKIP() << probe.status();
    }
  }
};

// Bits, with rows of both senses and a column that is no integer.
MilpProblem RandomProblem(std::mt19937& random, int bits) {
  const auto pick = [&](int low, int high) {
    return low + static_cast<int>(random() % static_cast<unsigned>(high - low + 1));
  };
  MilpProblem problem;
  for (int c = 0; c < bits; ++c) {
    problem.columns.push_back({0, 1, static_cast<double>(pick(-20, 9)), true});
  }
  problem.columns.push_back({0, 50, 1, false});
  for (int r = 0; r < 4; ++r) {
    MilpRow row;
    int most = 0;
    for (int c = 0; c < bits; ++c) {
      const int weight = pick(1, 30);
      most += weight;
      row.terms.emplace_back(c, weight);
    }
    if (r == 3) {  // what is short of a sum is made up for by the last column
      row.terms.emplace_back(bits, 1);
      row.lower = most / 3 - pick(0, 60);
    } else {
      row.upper = most / 2 - pick(0, 40);
    }
    problem.rows.push_back(std::move(row));
  }
  return problem;
}

// Over all bits; infinite where there is no solution.
double BruteForce(const MilpProblem& problem) {
  const size_t bits = problem.columns.size() - 1;
  double best = kNoBound;
  for (unsigned mask = 0; mask < 1u << bits; ++mask) {
    double cost = 0, rest = 0;
    bool fits = true;
    for (size_t c = 0; c < bits; ++c) cost += mask >> c & 1 ? problem.columns[c].objective : 0;
    for (const MilpRow& row : problem.rows) {
      double sum = 0;
      for (size_t c = 0; c < bits; ++c) sum += mask >> c & 1 ? row.terms[c].second : 0;
      fits &= sum <= row.upper;
      if (!std::isinf(row.lower)) rest = std::max(rest, row.lower - sum);
    }
    if (fits && rest <= problem.columns.back().upper) best = std::min(best, cost + rest);
  }
  return best;
}

// At every limit: bound <= optimum <= what was found.
TEST_F(Milp, BoundsHoldAtEveryLimit) {
  std::mt19937 random(11);
  int infeasible = 0, ended = 0;
  for (int round = 0; round < 150; ++round) {
    MilpProblem problem = RandomProblem(random, 4 + round % 9);
    const double optimum = BruteForce(problem);
    for (const int nodes : {0, 1, 3, 10, 100'000}) {
      problem.max_nodes = nodes;
      const MilpSolution found = Solved(problem);
      ASSERT_LE(found.bound, optimum + 1e-6) << round << " " << nodes;
      ASSERT_GE(found.objective, optimum - 1e-6) << round << " " << nodes;
      ASSERT_TRUE(found.status != MilpStatus::kOptimal || found.objective <= optimum + 1e-4);
      ASSERT_TRUE(found.status != MilpStatus::kInfeasible || std::isinf(optimum));
      if (nodes == 100'000) {
        ASSERT_EQ(found.status,
                  std::isinf(optimum) ? MilpStatus::kInfeasible : MilpStatus::kOptimal);
        infeasible += std::isinf(optimum) ? 1 : 0;
      } else if (found.status != MilpStatus::kOptimal && found.status != MilpStatus::kInfeasible) {
        ++ended;
      }
    }
  }
  EXPECT_GT(infeasible, 3);  // of each kind some
  EXPECT_GT(ended, 100);
}

TEST_F(Milp, AStartIsKeptOrImproved) {
  std::mt19937 random(5);
  int improved = 0;
  for (int round = 0; round < 40; ++round) {
    MilpProblem problem = RandomProblem(random, 10);
    problem.max_nodes = 100'000;
    const MilpSolution best = Solved(problem);
    if (!best.found()) continue;
    // The optimum as the start stays, at a limit of no node too.
    problem.start = best.values;
    EXPECT_EQ(Solved(problem).values, best.values);
    problem.max_nodes = 0;
    EXPECT_NEAR(Solved(problem).objective, best.objective, 1e-9);
    // A poor one is left behind, and does not mislead.
    problem.max_nodes = 100'000;
    problem.start.assign(problem.columns.size(), 0);
    problem.start.back() = std::max(0.0, problem.rows.back().lower);
    if (problem.start.back() > problem.columns.back().upper) continue;
    const MilpSolution from_poor = Solved(problem);
    EXPECT_NEAR(from_poor.objective, best.objective, 1e-4);
    improved += from_poor.objective < problem.start.back() ? 1 : 0;
  }
  EXPECT_GT(improved, 3);
}

TEST_F(Milp, GapOfWhatALimitEnds) {
  std::mt19937 random(3);
  MilpProblem problem = RandomProblem(random, 30);
  problem.start.assign(31, 0);
  problem.start.back() = std::max(0.0, problem.rows.back().lower);
  problem.columns.back().upper = 1000;
  const MilpSolution ended = Solved(problem);
  ASSERT_EQ(ended.status, MilpStatus::kFeasible);
  EXPECT_GT(ended.gap(), 0);
  EXPECT_DOUBLE_EQ(ended.gap(), (ended.objective - ended.bound) / std::abs(ended.objective));
  problem.max_nodes = 1'000'000;
  const MilpSolution proven = Solved(problem);
  EXPECT_EQ(proven.status, MilpStatus::kOptimal);
  EXPECT_EQ(proven.gap(), 0);
  EXPECT_GE(proven.objective, ended.bound - 1e-6);
  // A gap that is allowed ends it sooner, and is what it says.
  problem.relative_gap = 0.2;
  const MilpSolution near = Solved(problem);
  EXPECT_LE(near.gap(), 0.2);
  EXPECT_LE(near.bound, proven.objective + 1e-6);
  EXPECT_LE(near.nodes, proven.nodes);
}

TEST_F(Milp, ThreadsChangeNothing) {
  std::mt19937 random(17);
  std::vector<MilpProblem> problems;
  for (int i = 0; i < 40; ++i) {
    problems.push_back(RandomProblem(random, 25));
    problems.back().max_nodes = 200;
  }
  std::vector<MilpSolution> alone;
  for (const MilpProblem& problem : problems) alone.push_back(Solved(problem));
  std::vector<std::vector<MilpSolution>> beside(4);
  std::vector<std::thread> threads;
  for (std::vector<MilpSolution>& found : beside) {
    threads.emplace_back([&] {
      for (const MilpProblem& problem : problems) found.push_back(Solved(problem));
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::vector<MilpSolution>& found : beside) {
    for (size_t i = 0; i < problems.size(); ++i) {
      ASSERT_EQ(found[i].values, alone[i].values) << i;
      ASSERT_EQ(found[i].bound, alone[i].bound) << i;
      ASSERT_EQ(found[i].nodes, alone[i].nodes) << i;
    }
  }
}

TEST_F(Milp, UnboundedAndContinuous) {
  MilpProblem problem{{{0, kNoBound, -1, false}}, {}, {}, 10, 0};
  EXPECT_EQ(Solved(problem).status, MilpStatus::kUnbounded);
  problem.rows = {{{{0, 2}}, -kNoBound, 7}};
  const MilpSolution half = Solved(problem);
  EXPECT_EQ(half.status, MilpStatus::kOptimal);
  EXPECT_DOUBLE_EQ(half.objective, -3.5);
  problem.columns[0].integer = true;
  EXPECT_DOUBLE_EQ(Solved(problem).objective, -3);
  problem.rows.push_back({{{0, 1}}, 4, kNoBound});
  EXPECT_EQ(Solved(problem).status, MilpStatus::kInfeasible);
}

TEST_F(Milp, StartsThatAreNone) {
  const MilpProblem problem{
      {{0, 3, 1, true}, {0, 3, 1, false}}, {{{{0, 1}, {1, 1}}, 2, 4}}, {}, 10, 0};
  for (const auto& [start, what] : {std::pair(std::vector<double>{1}, "1 values for 2 columns"),
                                    std::pair(std::vector<double>{0.5, 2}, "whole numbers"),
                                    std::pair(std::vector<double>{1, 3.5}, "column 1"),
                                    std::pair(std::vector<double>{1, 0.5}, "row 0")}) {
    MilpProblem started = problem;
    started.start = start;
    const auto refused = SolveMilp(started);
    EXPECT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_NE(refused.status().message().find(what), absl::string_view::npos) << refused.status();
  }
}

}  // namespace
}  // namespace foretrace
