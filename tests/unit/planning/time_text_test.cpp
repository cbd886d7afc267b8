// Times of the dataflow commands.
#include "simulator/planning/dataflow/time_text.h"

#include <gtest/gtest.h>

namespace foretrace {
namespace {

TEST(TimeText, HasNoExponents) {
  EXPECT_EQ(TimeText(6.123684e6), "6.12368 ms");
  EXPECT_EQ(TimeText(71.3449e9, 4), "71.34 s");
  EXPECT_EQ(TimeText(9999.4e9, 4), "9999 s");
  EXPECT_EQ(TimeText(9999.7e9, 4), "10000 s");
  EXPECT_EQ(TimeText(1234567.8e9), "1234568 s");
  EXPECT_EQ(TimeText(0), "0 s");
  EXPECT_EQ(TimeText(850), "0.85 us");
}

}  // namespace
}  // namespace foretrace
