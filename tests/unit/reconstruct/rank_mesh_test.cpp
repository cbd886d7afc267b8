// Ranks as a mesh.
#include "simulator/reconstruct/rank_mesh.h"

#include <gtest/gtest.h>

namespace foretrace {
namespace {

// TP 2, DP 2, PP 2: rank = 4 pp + 2 dp + tp.
TEST(RankMesh, LinesAreRanksAtOneDistance) {
  const MeshAxis tensor{1, 2}, data{2, 2}, pipeline{4, 2};
  EXPECT_EQ(tensor.LineOf(6), tensor.LineOf(7));
  EXPECT_NE(tensor.LineOf(5), tensor.LineOf(6));
  EXPECT_EQ(data.LineOf(5), data.LineOf(7));
  EXPECT_NE(data.LineOf(3), data.LineOf(5));
  EXPECT_EQ(pipeline.LineOf(3), pipeline.LineOf(7));
  EXPECT_EQ(pipeline.PlaceOf(3), 0u);
  EXPECT_EQ(pipeline.PlaceOf(7), 1u);
  EXPECT_TRUE(pipeline.AreNeighbours(3, 7));
  EXPECT_FALSE(pipeline.AreNeighbours(3, 6));
}

// Of 12 ranks, every other: 1 3 5 7 9 11 in a ring.
TEST(RankMesh, TheLastIsNextToTheFirst) {
  const MeshAxis axis{2, 6};
  EXPECT_TRUE(axis.AreNeighbours(1, 3));
  EXPECT_TRUE(axis.AreNeighbours(1, 11));
  EXPECT_FALSE(axis.AreNeighbours(1, 5));
  EXPECT_FALSE(axis.AreNeighbours(1, 1));
}

// Sizes and strides whose GEMM divides 8: 2 by 1, 2, 4; 4 by 1, 2; 8 by 1.
TEST(RankMesh, AxesDivideAllRanks) {
  EXPECT_EQ(MeshAxes(8).size(), 6u);
  EXPECT_EQ(MeshAxes(7).size(), 1u);
  EXPECT_TRUE(MeshAxes(1).empty());
  EXPECT_TRUE(MeshAxes(size_t{1} << 31).empty());
}

}  // namespace
}  // namespace foretrace
