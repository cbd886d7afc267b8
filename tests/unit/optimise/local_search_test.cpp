#include "simulator/optimise/local_search.h"

#include <cmath>
#include <optional>
#include <random>
#include <stop_token>
#include <vector>

#include "absl/status/statusor.h"
#include "gtest/gtest.h"
#include "simulator/base/error.h"

namespace foretrace {
namespace {

// f(x) = (x - 7)^2, one step to either side.
TEST(DescendTest, EndsWhereNoChangeImproves) {
  int x = 0, asked = 0;
  const auto cost = [](int at) { return (at - 7) * (at - 7); };
  const absl::Status done = Descend(
      [] {
        return std::vector<int>{-1, 1};
      },
      [&](int by) -> absl::StatusOr<bool> {
        ++asked;
        if (cost(x + by) >= cost(x)) return false;
        x += by;
        return true;
      },
      [] { return false; });
  EXPECT_TRUE(done.ok());
  EXPECT_EQ(x, 7);
  EXPECT_EQ(asked, 7 * 2 + 2);  // each step tries the wrong side first; the last round tries both
}

TEST(DescendTest, EndsWhenSpent) {
  int x = 0, left = 5;
  ASSERT_TRUE(Descend([] { return std::vector<int>{1}; },
                      [&](int by) -> absl::StatusOr<bool> {
                        --left;
                        x += by;
                        return true;
                      },
                      [&] { return left == 0; })
                  .ok());
  EXPECT_EQ(x, 5);
}

TEST(DescendTest, PassesErrorsOn) {
  const absl::Status failed =
      Descend([] { return std::vector<int>{1}; },
              [](int) -> absl::StatusOr<bool> { return InvalidInput("no such change"); },
              [] { return false; });
  EXPECT_EQ(failed.message(), "no such change");
}

// Two valleys, at 10 with cost 5 and at 40 with cost 1; between them a ridge of cost 6. Descent
// from 0 ends in the first; annealing at up to twice the cost passes the ridge.
double Valleys(int x) { return x < 25 ? 5 + std::abs(x - 10) / 15.0 : 1 + std::abs(x - 40) / 3.0; }

std::optional<int> Step(int x, std::mt19937_64& rng) {
  const int to = rng() % 2 == 0 ? x - 1 : x + 1;
  return to < 0 || to > 60 ? std::nullopt : std::optional(to);
}

// |x - 3| + |y + 1.5| from (0, 0): scales 1, 1/2, ... 1/64 reach both exactly.
TEST(DescendByCoordinateTest, FindsAnOptimumBetweenItsScales) {
  using Point = std::array<double, 2>;
  const auto move = [](Point p, size_t i, double by) {
    p[i] += by;
    return p;
  };
  const auto cost = [](const Point& p) { return 1 + std::abs(p[0] - 3) + std::abs(p[1] + 1.5); };
  EXPECT_EQ(DescendByCoordinate(Point{0, 0}, 2, {}, move, cost), (Point{3, -1.5}));
  // One round at each scale: x gets 1 + 1/2 + 1/4 + ... on its way to 3.
  const Point once = DescendByCoordinate(Point{0, 0}, 1, {.rounds = 1}, move, cost);
  EXPECT_EQ(once[0], 2 - 1.0 / 64);
  // Moves that improve by less than a tenth are not made: 5.5 -> 4.5 -> 3.5 -> 2.5 are more.
  const Point coarse = DescendByCoordinate(Point{0, 0}, 2, {.least = 0.1}, move, cost);
  EXPECT_EQ(coarse[0], 3);
}

TEST(AnnealTest, LeavesAValley) {
  AnnealingSettings settings;
  settings.steps = 20'000;
  settings.hottest = 0.5;
  EXPECT_EQ(Anneal(0, settings, Step, Valleys), 40);
}

TEST(AnnealTest, NeverWorseThanTheStartAndDeterministic) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    AnnealingSettings settings;
    settings.steps = 40;
    settings.seed = seed;
    const int found = Anneal(30, settings, Step, Valleys);
    EXPECT_LE(Valleys(found), Valleys(30));
    EXPECT_EQ(found, Anneal(30, settings, Step, Valleys));
  }
}

TEST(AnnealTest, StopsAtOnce) {
  std::stop_source source;
  source.request_stop();
  EXPECT_EQ(Anneal(30, {}, Step, Valleys, source.get_token()), 30);
}

}  // namespace
}  // namespace foretrace
