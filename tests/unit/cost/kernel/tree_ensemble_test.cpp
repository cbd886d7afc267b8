#include "simulator/cost/kernel/tree_ensemble.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "simulator/calibrate/boosting.h"

namespace foretrace {
namespace {

TEST(TreeEnsemble, WalksCompleteTrees) {
  // Two trees of depth 2. First: x0 < 1, then x1 < 5 on the left and x1 < 7 on the right. Second:
  // a stump on x1 < 6, padded by thresholds that always lead left.
  const float inf = std::numeric_limits<float>::infinity();
  const auto e = TreeEnsemble::Create(2, 2, {0, 1, 1, 1, 0, 0}, {1, 5, 7, 6, inf, inf},
                                      {10, 20, 30, 40, 1, 1, 2, 2});
  ASSERT_TRUE(e.ok()) << e.status();
  const auto at = [&](float x0, float x1) {
    const float x[] = {x0, x1};
    return e->Evaluate(x);
  };
  EXPECT_EQ(at(0, 4), 11);
  EXPECT_EQ(at(0, 5), 21);  // 5 < 5 is false
  EXPECT_EQ(at(1, 6), 32);
  EXPECT_EQ(at(2, 9), 42);
  EXPECT_EQ(TreeEnsemble().Evaluate({}), 0);
}

TEST(TreeEnsemble, MeanOfTwoIsHalfOfWhatBothSay) {
  const auto a = TreeEnsemble::Create(1, 2, {0}, {1}, {10, 20});
  const auto b = TreeEnsemble::Create(1, 2, {1, 1}, {5, 6}, {1, 3, 5, 7});
  ASSERT_TRUE(a.ok() && b.ok());
  const TreeEnsemble mean = TreeEnsemble::MeanOf(*a, *b);
  EXPECT_EQ(mean.tree_count(), 3u);
  const float low[] = {0, 0}, high[] = {2, 5.5f};
  EXPECT_EQ(mean.Evaluate(low), (10 + 1 + 5) / 2.0f);
  EXPECT_EQ(mean.Evaluate(high), (20 + 3 + 5) / 2.0f);
}

TEST(TreeEnsemble, RefusesWhatDoesNotFitTogether) {
  EXPECT_FALSE(TreeEnsemble::Create(2, 2, {0, 1}, {1, 2}, {1, 2, 3, 4}).ok());
  EXPECT_FALSE(TreeEnsemble::Create(1, 1, {3}, {1}, {1, 2}).ok());
  EXPECT_FALSE(TreeEnsemble::Create(1, 1, {0}, {NAN}, {1, 2}).ok());
  EXPECT_FALSE(TreeEnsemble::Create(1, 1, {0}, {1}, {INFINITY, 2}).ok());
  EXPECT_FALSE(TreeEnsemble::Create(0, 1, {}, {}, {1}).ok());
  EXPECT_FALSE(TreeEnsemble::Create(40, 1, {}, {}, {}).ok());
}

TEST(Boosting, LearnsAStepAndIsDeterministic) {
  std::vector<float> x, y, w;
  for (int i = 0; i < 400; ++i) {
    x.push_back(static_cast<float>(i));
    y.push_back(i < 150 ? -0.5f : 0.25f);
    w.push_back(1);
  }
  const auto a = TrainBoostedTrees(x, 1, y, w, {});
  const auto b = TrainBoostedTrees(x, 1, y, w, {});
  ASSERT_TRUE(a.ok()) << a.status();
  const float low[] = {40}, high[] = {300};
  EXPECT_NEAR(a->Evaluate(low), -0.5, 0.01);
  EXPECT_NEAR(a->Evaluate(high), 0.25, 0.01);
  ASSERT_TRUE(b.ok());
  EXPECT_TRUE(std::ranges::equal(a->leaves(), b->leaves()));
  EXPECT_TRUE(std::ranges::equal(a->thresholds(), b->thresholds()));
}

TEST(Boosting, RefusesSizesThatDisagree) {
  const float x[] = {1, 2}, y[] = {1};
  EXPECT_FALSE(TrainBoostedTrees(x, 1, y, y, {}).ok());
  EXPECT_FALSE(TrainBoostedTrees({}, 1, {}, {}, {}).ok());
}

}  // namespace
}  // namespace foretrace
