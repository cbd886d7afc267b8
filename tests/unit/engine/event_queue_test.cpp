#include "simulator/engine/event_queue.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <set>
#include <utility>
#include <vector>

namespace foretrace {
namespace {

struct Ring {
  SimTime time;
  uint32_t bell = 0;
  bool operator<(const Ring& other) const {
    return std::pair(time, bell) < std::pair(other.time, other.bell);
  }
};

Ring At(int64_t ps, uint32_t bell = 0) { return {SimTime::FromPs(ps), bell}; }

TEST(EventQueue, GivesTheEarliestFirstAndAtOneTimeTheLeast) {
  EventQueue<Ring> queue;
  for (const Ring& ring : {At(5, 1), At(3, 2), At(3, 1), At(9), At(5, 0)}) queue.Push(ring);
  const std::pair<int64_t, uint32_t> expected[] = {{3, 1}, {3, 2}, {5, 0}, {5, 1}, {9, 0}};
  for (const auto& [ps, bell] : expected) {
    EXPECT_EQ(queue.Top().time.ps(), ps);
    const Ring ring = queue.Pop();
    EXPECT_EQ(ring.time.ps(), ps);
    EXPECT_EQ(ring.bell, bell);
    EXPECT_EQ(queue.now().ps(), ps);
  }
  EXPECT_TRUE(queue.empty());
}

// Pushes and pops in a pseudo-random mixture, against an ordered set.
TEST(EventQueue, AgreesWithASortedSet) {
  EventQueue<Ring> queue;
  std::set<std::pair<int64_t, uint32_t>> model;
  uint64_t state = 1;
  int64_t now = 0;
  for (uint32_t step = 0; step < 20'000; ++step) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    const auto draw = static_cast<int64_t>(state >> 40);
    if (model.empty() || draw % 5 < 3) {
      const int64_t time = now + draw % 50;
      queue.Push(At(time, step));
      model.insert({time, step});
    } else {
      const Ring ring = queue.Pop();
      ASSERT_EQ(std::pair(ring.time.ps(), ring.bell), *model.begin()) << "step " << step;
      now = ring.time.ps();
      model.erase(model.begin());
    }
    ASSERT_EQ(queue.size(), model.size());
  }
}

TEST(EventQueueDeathTest, TimeDoesNotRunBackwards) {
  EventQueue<Ring> queue;
  queue.Push(At(5));
  queue.Pop();
  queue.Push(At(4));
  EXPECT_DEATH(queue.Pop(), "time");
}

}  // namespace
}  // namespace foretrace
