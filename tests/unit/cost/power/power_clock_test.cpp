#include "simulator/cost/power/power_clock.h"

#include <gtest/gtest.h>

#include <cmath>

namespace foretrace {
namespace {

// 60 us of FLOP and 30 us of bytes in 100 us: 0.6 + 0.556 x 0.3. Caches serve bytes faster than
// memory does, which draws no more than all of its bandwidth.
TEST(PowerClock, SharesAddUp) {
  const auto us = [](double n) { return SimTime::FromUs(n); };
  EXPECT_NEAR(PowerShare(us(60), us(30), us(100)), 0.7668, 1e-9);
  EXPECT_NEAR(PowerShare(us(0), us(500), us(100)), 0.556, 1e-9);
  EXPECT_EQ(PowerShare(us(1), us(1), us(0)), 0);
}

TEST(PowerClock, GemmsAloneRunAtTheClockThatLasts) {
  PowerClock clock(1);
  EXPECT_DOUBLE_EQ(clock.During(SimTime::FromUs(1000), 1), 1);
  clock.Run(SimTime::FromUs(1000), 1);
  EXPECT_DOUBLE_EQ(clock.During(SimTime::FromUs(1000), 1), 1);
}

// After half the power for long the clock is 2^(1/3). 40 ms of GEMMs later the mean is
// 1 - 0.5 / e = 0.816, its mean over them 1 - 0.5 (1 - 1/e) = 0.684.
TEST(PowerClock, LighterKernelsBeforeRaiseIt) {
  PowerClock clock(0.5);
  EXPECT_NEAR(clock.During(SimTime::FromUs(1), 1), std::cbrt(2.0), 1e-4);
  const SimTime window = SimTime::FromUs(40e3);
  EXPECT_NEAR(clock.During(window, 1), 1 / std::cbrt(1 - 0.5 * (1 - std::exp(-1.0))), 1e-9);
  clock.Run(window, 1);
  EXPECT_NEAR(clock.During(SimTime(), 1), 1 / std::cbrt(1 - 0.5 / std::exp(1.0)), 1e-9);
}

TEST(PowerClock, IdleBoardsHaveAFiniteClock) {
  PowerClock clock(0);
  EXPECT_TRUE(std::isfinite(clock.During(SimTime(), 0)));
}

}  // namespace
}  // namespace foretrace
