#include "simulator/report/device_time.h"

#include <gtest/gtest.h>

#include "tests/unit/report/scenario.h"

namespace foretrace {
namespace {

TEST(DeviceTime, WhatRunsAtOnceAndTheGapsOfStreams) {
  const Scenario s = MakeScenario();
  const auto time = ComputeDeviceTime(*s.table, s.windows);
  // Rank 0 computes [5,25) and [26,46) and communicates [25,55), waiting included.
  EXPECT_EQ(time[0].span, Us(50));
  EXPECT_EQ(time[0].by_kinds[0], Us(0));
  EXPECT_EQ(time[0].by_kinds[kComputing], Us(20));
  EXPECT_EQ(time[0].by_kinds[kCommunicating], Us(10));
  EXPECT_EQ(time[0].by_kinds[kComputing | kCommunicating], Us(20));
  EXPECT_EQ(time[1].by_kinds[kComputing], Us(30));
  EXPECT_EQ(time[1].by_kinds[kCommunicating], Us(20));
  ASSERT_EQ(time[0].gaps.size(), 2u);
  // Its second kernel was launched at 8.
  EXPECT_EQ(time[0].gaps[0].kernel, Us(1));
  EXPECT_EQ(time[0].gaps[0].host, Us(0));
}

TEST(DeviceTime, TheWindowCutsIt) {
  Scenario s = MakeScenario();
  s.windows[0].predicted_start = Us(20);
  s.windows[0].predicted_end = Us(40);
  const auto time = ComputeDeviceTime(*s.table, s.windows);
  EXPECT_EQ(time[0].span, Us(20));
  EXPECT_EQ(time[0].by_kinds[kComputing | kCommunicating], Us(14));
}

}  // namespace
}  // namespace foretrace
