#include <gtest/gtest.h>

#include "simulator/engine/program.h"

namespace foretrace {
namespace {

TEST(LagTable, KeepsALagOnceWhileItRecursSoon) {
  LagTable lags;
  EXPECT_EQ(lags.Add(SimTime()), LagTable::kZero);
  EXPECT_EQ(lags[LagTable::kZero], SimTime());
  const uint32_t event = lags.Add(SimTime::FromNs(1500));
  const uint32_t resume = lags.Add(SimTime::FromNs(4000));
  EXPECT_NE(event, resume);
  EXPECT_EQ(lags.Add(SimTime::FromNs(1500)), event);
  EXPECT_EQ(lags.Add(SimTime()), LagTable::kZero);
  // Long after, it is kept again; both are the same time.
  for (int64_t ns = 0; ns < 100; ++ns) lags.Add(SimTime::FromNs(10'000 + ns));
  EXPECT_EQ(lags[lags.Add(SimTime::FromNs(1500))], SimTime::FromNs(1500));
  EXPECT_EQ(lags[resume], SimTime::FromNs(4000));
}

}  // namespace
}  // namespace foretrace
