#include "simulator/replay/attribution/span_index.h"

#include <gtest/gtest.h>

namespace foretrace {
namespace {

SimTime At(int64_t us) { return SimTime::FromNs(us * 1000); }

// Thread 1: a [0,100) holds b [10,40), which holds c [20,30); d [50,120) sticks out of a. Thread 2
// has e [0,10) alone.
SpanIndex Sample() {
  return SpanIndex({{1, At(50), At(120), 3},
                    {1, At(10), At(40), 1},
                    {2, At(0), At(10), 4},
                    {1, At(0), At(100), 0},
                    {1, At(20), At(30), 2}});
}

TEST(SpanIndex, FindsTheInnermost) {
  const SpanIndex index = Sample();
  const auto name = [&](int64_t thread, int64_t us) -> int {
    const uint32_t at = index.At(thread, At(us));
    return at == SpanIndex::kNone ? -1 : static_cast<int>(index.entries()[at].span.name);
  };
  EXPECT_EQ(name(1, 0), 0);
  EXPECT_EQ(name(1, 25), 2);
  EXPECT_EQ(name(1, 30), 1);  // c has ended
  EXPECT_EQ(name(1, 45), 0);
  EXPECT_EQ(name(1, 99), 3);
  EXPECT_EQ(name(1, 110), -1);  // d ends with a
  EXPECT_EQ(name(2, 5), 4);
  EXPECT_EQ(name(2, 10), -1);
  EXPECT_EQ(name(3, 5), -1);
}

TEST(SpanIndex, ParentsComeFirst) {
  const SpanIndex index = Sample();
  for (uint32_t i = 0; i < index.entries().size(); ++i) {
    const SpanIndex::Entry& entry = index.entries()[i];
    if (entry.parent != SpanIndex::kNone) {
      EXPECT_LT(entry.parent, i);
      EXPECT_LE(index.entries()[entry.parent].span.start, entry.span.start);
      EXPECT_GE(index.entries()[entry.parent].span.end, entry.span.end);
    }
  }
}

}  // namespace
}  // namespace foretrace
