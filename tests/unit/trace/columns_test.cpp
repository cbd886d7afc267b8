#include "simulator/trace/columns.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace foretrace {
namespace {

TEST(AttributeColumn, KeepsEqualValuesOnceAndTheFirstOfANode) {
  AttributeBuilder<int64_t> builder;
  builder.Add(70, 5);
  builder.Add(3, 7);
  builder.Add(3, 8);  // node 3 has a value
  builder.Add(64, 5);
  ASSERT_EQ(builder.size(), 4u);
  EXPECT_EQ(builder.node(1), 3u);
  EXPECT_EQ(builder.value(1), 7);
  builder.Replace(1, 9);

  AttributeColumn<int64_t> column = builder.Build(100);
  ASSERT_NE(column.Find(3), nullptr);
  EXPECT_EQ(*column.Find(3), 9);
  EXPECT_EQ(*column.Find(64), 5);
  EXPECT_EQ(column.Find(64), column.Find(70));
  EXPECT_EQ(column.Find(0), nullptr);
  EXPECT_EQ(column.Find(99), nullptr);
  EXPECT_EQ(column.values().size(), 4u);  // 5, 7, 8, 9
  column.values()[0] = 6;
  EXPECT_EQ(*column.Find(70), 6);
  EXPECT_EQ(builder.size(), 0u);
}

TEST(AttributeColumn, ValuesThatShareAPlaceInTheCacheStayApart) {
  AttributeBuilder<int64_t> builder;
  constexpr uint32_t kNodes = 10'000;  // many times what the cache holds
  for (uint32_t n = 0; n < kNodes; ++n) builder.Add(n, n * 3);
  const AttributeColumn<int64_t> column = builder.Build(kNodes);
  for (uint32_t n = 0; n < kNodes; ++n) ASSERT_EQ(*column.Find(n), n * 3);
}

TEST(AttributeColumn, FollowsRenumberedNodes) {
  AttributeBuilder<int64_t> builder;
  builder.Add(0, 10);
  builder.Add(1, 11);
  builder.Renumber({2, 0, 1});
  const AttributeColumn<int64_t> column = builder.Build(3);
  EXPECT_EQ(*column.Find(2), 10);
  EXPECT_EQ(*column.Find(0), 11);
  EXPECT_EQ(column.Find(1), nullptr);
}

// Ids in a row take no memory, ids within 2^32 of each other four bytes each, others eight.
TEST(IdColumn, TakesWhatTheIdsNeed) {
  const uint64_t far = uint64_t{1} << 40;
  const std::vector<std::vector<uint64_t>> cases = {
      {far, far + 1, far + 2}, {9, 7, 8}, {far, 0, 1}, {UINT32_MAX, 0, 5}};
  const std::vector<size_t> bytes = {0, 12, 24, 12};
  for (size_t c = 0; c < cases.size(); ++c) {
    const IdColumn column(cases[c]);
    for (uint32_t n = 0; n < 3; ++n) EXPECT_EQ(column[n], cases[c][n]) << "case " << c;
    EXPECT_EQ(column.bytes(), bytes[c]) << "case " << c;
  }
}

std::string Text(const DependencyColumn& column, uint32_t node) {
  std::string text;
  for (const Dependency& d : column.of(node)) {
    text += std::to_string(d.producer.value) + (d.kind == DependencyKind::kData ? "d " : "c ");
  }
  return text;
}

TEST(DependencyColumn, KeepsKindsOnlyWhereTheyDiffer) {
  DependencyColumn column;
  column.Add(1, {NodeIndex(0), DependencyKind::kData});
  column.Add(1, {NodeIndex(2), DependencyKind::kData});
  const size_t plain = column.bytes();
  column.Add(4, {NodeIndex(1), DependencyKind::kControl});
  column.Add(4, {NodeIndex(3), DependencyKind::kData});
  column.Close(6);
  EXPECT_GT(column.bytes(), plain);
  EXPECT_EQ(column.size(), 4u);
  EXPECT_TRUE(column.of(0).empty());
  EXPECT_EQ(Text(column, 1), "0d 2d ");
  EXPECT_TRUE(column.of(3).empty());
  EXPECT_EQ(Text(column, 4), "1c 3d ");
  EXPECT_EQ(column.of(4)[0].kind, DependencyKind::kControl);
  EXPECT_TRUE(column.of(5).empty());
}

}  // namespace
}  // namespace foretrace
