#include "simulator/network/bucket_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace foretrace {
namespace {

TEST(BucketQueue, PopsInOrderOfTimeAndInsertion) {
  // 300 distinct times collide in the 256-entry cache; order must not suffer.
  std::mt19937 random(7);
  BucketQueue<int> queue;
  std::vector<std::pair<double, int>> expected;
  for (int i = 0; i < 20000; ++i) {
    const double time = static_cast<double>(random() % 300) / 7.0;
    queue.Push(time, i);
    expected.emplace_back(time, i);
  }
  std::sort(expected.begin(), expected.end());
  std::vector<int> items;
  while (!queue.empty()) {
    const double time = queue.NextTime();
    const size_t before = items.size();
    queue.PopBatch(items);
    for (size_t i = before; i < items.size(); ++i) EXPECT_EQ(expected[i].first, time);
  }
  ASSERT_EQ(items.size(), expected.size());
  for (size_t i = 0; i < items.size(); ++i) EXPECT_EQ(items[i], expected[i].second);
}

TEST(BucketQueue, AcceptsItemsOfTheTimeJustPopped) {
  BucketQueue<int> queue;
  queue.Push(1.0, 1);
  std::vector<int> items;
  queue.PopBatch(items);
  queue.Push(1.0, 2);
  EXPECT_EQ(queue.NextTime(), 1.0);
  queue.PopBatch(items);
  EXPECT_EQ(items, (std::vector<int>{1, 2}));
  EXPECT_EQ(queue.NextTime(), BucketQueue<int>::kNever);
}

}  // namespace
}  // namespace foretrace
