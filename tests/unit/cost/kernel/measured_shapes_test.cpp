#include "simulator/cost/kernel/measured_shapes.h"

#include <gtest/gtest.h>

namespace foretrace {
namespace {

std::vector<MeasuredShape> Sweep(int64_t n, int count) {
  std::vector<MeasuredShape> shapes;
  for (int i = count; i >= 1; --i)
    shapes.push_back({100 * i, n, 64, 1, 0.01f * static_cast<float>(i)});
  return shapes;
}

TEST(MeasuredShapes, InterpolatesBetweenRowsAndKeepsTheNearestBeyond) {
  const MeasuredShapes shapes = MeasuredShapes::Select(Sweep(512, 8));
  EXPECT_NEAR(shapes.LogResidual(300, 512, 64, 1), 0.03, 1e-6);
  EXPECT_NEAR(shapes.LogResidual(350, 512, 64, 1), 0.035, 1e-6);
  EXPECT_NEAR(shapes.LogResidual(1, 512, 64, 1), 0.01, 1e-6);
  EXPECT_NEAR(shapes.LogResidual(1 << 30, 512, 64, 1), 0.08, 1e-6);
  EXPECT_EQ(shapes.LogResidual(300, 512, 65, 1), 0);
  EXPECT_EQ(shapes.LogResidual(300, 512, 64, 2), 0);
}

TEST(MeasuredShapes, KeepsOnlyMatricesWithEnoughRowsAndTakesMediansOfRepeats) {
  std::vector<MeasuredShape> all = Sweep(512, 8);
  const auto few = Sweep(256, 7);
  all.insert(all.end(), few.begin(), few.end());
  all.push_back({100, 512, 64, 1, 0.5f});
  all.push_back({100, 512, 64, 1, 0.02f});  // of 0.01, 0.02 and 0.5 the median is 0.02
  const MeasuredShapes shapes = MeasuredShapes::Select(all);
  EXPECT_EQ(shapes.shapes().size(), 8u);
  EXPECT_NEAR(shapes.LogResidual(100, 512, 64, 1), 0.02, 1e-6);
  EXPECT_EQ(shapes.LogResidual(100, 256, 64, 1), 0);
}

TEST(MeasuredShapes, RefusesFilesThatAreOutOfOrderOrRange) {
  EXPECT_TRUE(MeasuredShapes::Create({{1, 2, 3, 1, 0.1f}, {2, 2, 3, 1, 0.1f}}).ok());
  EXPECT_FALSE(MeasuredShapes::Create({{2, 2, 3, 1, 0.1f}, {1, 2, 3, 1, 0.1f}}).ok());
  EXPECT_FALSE(MeasuredShapes::Create({{1, 2, 3, 1, 0.1f}, {1, 2, 3, 1, 0.1f}}).ok());
  EXPECT_FALSE(MeasuredShapes::Create({{0, 2, 3, 1, 0.1f}}).ok());
  EXPECT_FALSE(MeasuredShapes::Create({{1, 2, 3, 1, 4.0f}}).ok());
}

}  // namespace
}  // namespace foretrace
