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

TEST(MeasuredShapes, LiesBetweenMatrices) {
  // n of 4 and 16 at batch 1,024, n of 4 alone at 4,096; eight rows each, all alike.
  std::vector<MeasuredShape> shapes;
  for (int64_t m = 1; m <= 8; ++m) {
    shapes.push_back({m, 4, 128, 1024, 0.1f});
    shapes.push_back({m, 16, 128, 1024, 0.3f});
    shapes.push_back({m, 4, 128, 4096, 0.5f});
  }
  const MeasuredShapes measured = MeasuredShapes::Select(shapes);
  EXPECT_NEAR(measured.LogResidualBetween(3, 16, 128, 1024), 0.3, 1e-6);
  EXPECT_NEAR(measured.LogResidualBetween(3, 8, 128, 1024), 0.2, 1e-6);   // half way in log n
  EXPECT_NEAR(measured.LogResidualBetween(3, 64, 128, 1024), 0.3, 1e-6);  // beyond: the nearest
  EXPECT_NEAR(measured.LogResidualBetween(3, 4, 128, 2048), 0.3, 1e-6);   // half way in log batch
  EXPECT_NEAR(measured.LogResidualBetween(3, 8, 128, 2048), 0.35, 1e-6);  // of 0.2 and 0.5
  EXPECT_EQ(measured.LogResidualBetween(3, 8, 64, 2048), 0);              // another k
  EXPECT_EQ(MeasuredShapes().LogResidualBetween(3, 8, 128, 2048), 0);
}

}  // namespace
}  // namespace foretrace
