#include "simulator/base/real_quantities.h"

#include <gtest/gtest.h>

namespace foretrace {
namespace {

// In doubles 0.0021 s is no whole number of anything, and 842.7 * 1e-6 * 1e6 is not 842.7.
TEST(RealTime, KeepsTheBitsOfWhatItsUnitStates) {
  EXPECT_EQ(RealUs(842.7).us(), 842.7);
  EXPECT_EQ(RealSeconds(0.0021).seconds(), 0.0021);
  EXPECT_EQ(RealNs(0.1).ns() + 0.2, (RealNs(0.1) + RealNs(0.2)).ns());
}

TEST(RealTime, ConvertsBetweenUnits) {
  EXPECT_DOUBLE_EQ(RealSeconds(0.25).us(), 250'000);
  EXPECT_DOUBLE_EQ(RealNs(1500).us(), 1.5);
  EXPECT_DOUBLE_EQ(RealMs(RealSeconds(RealUs(7))).ms(), 0.007);
}

// What SimTime itself reads, to the bit, though the factor of its unit is a quotient.
TEST(RealTime, ReadsSimulatedTime) {
  const SimTime t = SimTime::FromPs(123'456'789'012'347);
  EXPECT_EQ(RealSeconds(t).seconds(), t.seconds());
  EXPECT_EQ(RealUs(t).us(), t.us());
}

TEST(RealTime, IsScaledAndCompared) {
  RealMs t(3);
  t += RealMs(1);
  t -= RealMs(2);
  EXPECT_EQ(t, RealMs(2));
  EXPECT_EQ(3 * t - t / 2, RealMs(5));
  EXPECT_EQ(RealMs(1) / t, 0.5);
  EXPECT_LT(t, RealMs::Infinite());
}

TEST(RealBytes, TakeTimeOnALink) {
  EXPECT_EQ(RealBytes(Bytes(3)) / RealBytes(4), 0.75);
  // 1.5 GB at 2 GB/s.
  EXPECT_DOUBLE_EQ((3 * RealBytes(5e8) / Bandwidth::GBps(2)).seconds(), 0.75);
}

// 3 bytes in 2 s, and what that rate moves in 4 s.
TEST(RealBytes, OverTimeAreARate) {
  const Bandwidth rate = RealBytes(3) / RealSeconds(2);
  EXPECT_EQ(rate, Bandwidth::BytesPerSecond(1.5));
  EXPECT_EQ(rate * RealSeconds(4), RealBytes(6));
}

TEST(Bandwidth, IsScaledAndCompared) {
  const Bandwidth rate = Bandwidth::BytesPerSecond(6);
  EXPECT_EQ(3 * rate / 2, Bandwidth::BytesPerSecond(9));
  EXPECT_EQ(rate * 0.5 / rate, 0.5);
}

}  // namespace
}  // namespace foretrace
