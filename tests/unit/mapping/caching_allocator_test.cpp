#include "simulator/mapping/caching_allocator.h"

#include <gtest/gtest.h>

namespace foretrace {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

TEST(CachingAllocatorTest, SegmentsBySize) {
  CachingAllocator a;
  a.Allocate(Bytes(1));
  EXPECT_EQ(a.allocated(), Bytes(512));
  EXPECT_EQ(a.reserved(), Bytes(2 * kMiB));
  a.Allocate(Bytes(kMiB));  // beside it
  EXPECT_EQ(a.reserved(), Bytes(2 * kMiB));
  a.Allocate(Bytes(kMiB));  // 512 bytes too many are left
  EXPECT_EQ(a.reserved(), Bytes(4 * kMiB));
  a.Allocate(Bytes(3 * kMiB));
  EXPECT_EQ(a.reserved(), Bytes(24 * kMiB));
  a.Allocate(Bytes(9 * kMiB));  // 3 + 9 of 20
  EXPECT_EQ(a.reserved(), Bytes(24 * kMiB));
  a.Allocate(Bytes(9 * kMiB));
  EXPECT_EQ(a.reserved(), Bytes(44 * kMiB));
  a.Allocate(
      Bytes(33 * kMiB));  // whole 2 MiB; 1 MiB is left in it, as no more than that is not cut
  EXPECT_EQ(a.reserved(), Bytes(78 * kMiB));
  EXPECT_EQ(a.allocated(), Bytes(512 + (1 + 1 + 3 + 9 + 9 + 34) * kMiB));
}

// 30 and 20 MiB are freed: 40 do not fit into either, though 50 are free; 18 fit into the smaller,
// of which 2 are left, and 2 more into those.
TEST(CachingAllocatorTest, BestFitAndFragments) {
  CachingAllocator a;
  const auto large = a.Allocate(Bytes(30 * kMiB)), middle = a.Allocate(Bytes(20 * kMiB));
  a.Free(large);
  a.Free(middle);
  EXPECT_EQ(a.allocated(), Bytes());
  a.Allocate(Bytes(40 * kMiB));
  EXPECT_EQ(a.reserved(), Bytes(90 * kMiB));
  const auto first = a.Allocate(Bytes(18 * kMiB)), second = a.Allocate(Bytes(2 * kMiB));
  EXPECT_EQ(a.reserved(), Bytes(90 * kMiB));
  // Joined again they serve 20.
  a.Free(first);
  a.Free(second);
  a.Allocate(Bytes(20 * kMiB));
  a.Allocate(Bytes(30 * kMiB));
  EXPECT_EQ(a.reserved(), Bytes(90 * kMiB));
  EXPECT_EQ(a.peak_allocated(), Bytes(90 * kMiB));
  a.Allocate(Bytes(2 * kMiB));
  EXPECT_EQ(a.reserved(), Bytes(110 * kMiB));
}

// Three neighbours freed in any order are one block again.
TEST(CachingAllocatorTest, NeighboursJoin) {
  CachingAllocator a;
  a.Free(a.Allocate(Bytes(12 * kMiB)));
  const CachingAllocator::Block third[] = {a.Allocate(Bytes(4 * kMiB)), a.Allocate(Bytes(4 * kMiB)),
                                           a.Allocate(Bytes(4 * kMiB))};
  for (const int i : {0, 2, 1}) a.Free(third[i]);
  a.Allocate(Bytes(12 * kMiB));
  EXPECT_EQ(a.reserved(), Bytes(12 * kMiB));
  a.Free(a.Allocate(Bytes()));
}

// One segment grows: 30 and 20 MiB in steps of 20 are 40 and, of which 10 are there, 20 more. A
// request that no free block holds takes what is free at the end and what is missing; blocks of 512
// bytes are cut off.
TEST(CachingAllocatorTest, ExpandableSegments) {
  CachingAllocator a(true);
  const auto first = a.Allocate(Bytes(30 * kMiB));
  EXPECT_EQ(a.reserved(), Bytes(40 * kMiB));
  const auto second = a.Allocate(Bytes(20 * kMiB));
  EXPECT_EQ(a.reserved(), Bytes(60 * kMiB));  // 10 of them are free, behind the second
  a.Free(first);
  a.Allocate(Bytes(40 * kMiB));  // 30 in front are too few; 10 behind, and 40 more in steps of 20
  EXPECT_EQ(a.reserved(), Bytes(100 * kMiB));
  a.Allocate(Bytes(30 * kMiB - 512));
  a.Allocate(Bytes(10 * kMiB));
  EXPECT_EQ(a.reserved(), Bytes(100 * kMiB));
  a.Free(second);
  a.Allocate(Bytes(20 * kMiB));
  EXPECT_EQ(a.reserved(), Bytes(100 * kMiB));
  a.Allocate(Bytes(512));  // a segment of small ones
  EXPECT_EQ(a.reserved(), Bytes(102 * kMiB));
}

}  // namespace
}  // namespace foretrace
