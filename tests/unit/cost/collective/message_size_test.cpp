#include "simulator/cost/collective/message_size.h"

#include <gtest/gtest.h>

#include <vector>

namespace foretrace {
namespace {

TEST(MessageSize, IsTheLargestOverDevicesOfSentAndReceived) {
  // Rank 0 sends 1+2+3, rank 1 4+5+6, rank 2 7+8+9 = 24; rank 2 receives 3+6+9 = 18.
  const std::vector<int64_t> splits = {1, 2, 3, 4, 5, 6, 7, 8, 9};
  EXPECT_EQ(AllToAllMessageSize(splits, 3).count(), 24);
  // Everyone sends 10 to rank 0: it receives 30.
  const std::vector<int64_t> incast = {10, 0, 0, 10, 0, 0, 10, 0, 0};
  EXPECT_EQ(AllToAllMessageSize(incast, 3).count(), 30);
}

}  // namespace
}  // namespace foretrace
