#include "simulator/calibrate/least_squares.h"

#include <gtest/gtest.h>

#include <cmath>

namespace foretrace {
namespace {

// y = a + b x through (0,1) (1,3) (2,5): a = 1, b = 2 exactly.
LeastSquaresProblem Line(std::vector<double> ys) {
  LeastSquaresProblem problem;
  problem.residual_count = ys.size();
  problem.bounds = {{-100, 100}, {-100, 100}};
  problem.starts = {{0, 0}};
  problem.residuals = [ys](std::span<const double> p, std::span<double> r) {
    for (size_t i = 0; i < ys.size(); ++i) r[i] = p[0] + p[1] * static_cast<double>(i) - ys[i];
  };
  return problem;
}

TEST(LeastSquares, FindsTheLine) {
  const auto result = SolveLeastSquares(Line({1, 3, 5}), {});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_NEAR(result->parameters[0], 1, 1e-6);
  EXPECT_NEAR(result->parameters[1], 2, 1e-6);
  EXPECT_NEAR(result->cost, 0, 1e-10);
}

TEST(LeastSquares, StopsAtABound) {
  LeastSquaresProblem problem = Line({1, 3, 5});
  problem.bounds[1] = {-1, 1.5};
  const auto result = SolveLeastSquares(problem, {});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_NEAR(result->parameters[1], 1.5, 1e-9);
  // With b fixed at 1.5 the residuals' mean vanishes at a = 3 - 1.5 = 1.5.
  EXPECT_NEAR(result->parameters[0], 1.5, 1e-4);
}

TEST(LeastSquares, EqualBoundsFixAParameter) {
  LeastSquaresProblem problem = Line({1, 3, 5});
  problem.bounds[0] = {0, 0};
  const auto result = SolveLeastSquares(problem, {});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->parameters[0], 0);
  // min over b of 1 + (b-3)^2 + (2b-5)^2: b = 13/5.
  EXPECT_NEAR(result->parameters[1], 2.6, 1e-6);
}

TEST(LeastSquares, SoftL1ResistsAnOutlier) {
  const LeastSquaresProblem problem = Line({1, 3, 5, 7, 9, 11, 100});
  const auto plain = SolveLeastSquares(problem, {});
  const auto robust = SolveLeastSquares(problem, {.soft_l1_scale = 0.1});
  ASSERT_TRUE(plain.ok() && robust.ok());
  EXPECT_GT(std::abs(plain->parameters[1] - 2), 3);
  EXPECT_LT(std::abs(robust->parameters[1] - 2), 0.1);
}

// (p^2 - 4)^2 + 0.1 (p + 2)^2 has a local minimum near +2 and the global one at -2.
LeastSquaresProblem TwoMinima() {
  LeastSquaresProblem problem;
  problem.residual_count = 2;
  problem.bounds = {{-10, 10}};
  problem.starts = {{5}};
  problem.residuals = [](std::span<const double> p, std::span<double> r) {
    r[0] = p[0] * p[0] - 4;
    r[1] = std::sqrt(0.1) * (p[0] + 2);
  };
  return problem;
}

TEST(LeastSquares, RandomStartsEscapeALocalMinimum) {
  const auto one = SolveLeastSquares(TwoMinima(), {});
  const auto many = SolveLeastSquares(TwoMinima(), {.random_starts = 8});
  ASSERT_TRUE(one.ok() && many.ok());
  EXPECT_GT(one->parameters[0], 1.5);
  EXPECT_NEAR(many->parameters[0], -2, 1e-5);
  EXPECT_EQ(many->starts_used, 9);
}

TEST(LeastSquares, SameBitsEveryTime) {
  const auto a = SolveLeastSquares(TwoMinima(), {.random_starts = 5, .seed = 7});
  const auto b = SolveLeastSquares(TwoMinima(), {.random_starts = 5, .seed = 7});
  ASSERT_TRUE(a.ok() && b.ok());
  EXPECT_EQ(a->parameters, b->parameters);
  EXPECT_EQ(a->cost, b->cost);
}

TEST(LeastSquares, RejectsBadProblems) {
  EXPECT_FALSE(SolveLeastSquares({}, {}).ok());
  LeastSquaresProblem wrong_order = Line({1, 2});
  wrong_order.bounds[0] = {1, 0};
  EXPECT_FALSE(SolveLeastSquares(wrong_order, {}).ok());
  LeastSquaresProblem short_start = Line({1, 2});
  short_start.starts = {{1}};
  EXPECT_FALSE(SolveLeastSquares(short_start, {}).ok());
  LeastSquaresProblem no_start = Line({1, 2});
  no_start.starts.clear();
  EXPECT_FALSE(SolveLeastSquares(no_start, {}).ok());
  LeastSquaresProblem nan = Line({1, NAN});
  EXPECT_FALSE(SolveLeastSquares(nan, {}).ok());
}

}  // namespace
}  // namespace foretrace
