#include "simulator/engine/cpu_scale.h"

#include <gtest/gtest.h>

#include "tests/unit/engine/engine_fixture.h"

namespace foretrace {
namespace {

// Two calls of 10 us, 5 us apart; the second launches 4 us of work, which begins 5 us after it
// (engine_fixture.h).
JobScript TwoCalls() {
  JobScript job(1);
  job.rank(0).Kernel("a", {0, 10}, 7, {5, 9}).Kernel("b", {15, 25}, 7, {20, 24});
  return job;
}

TEST(ScaleCpu, CallsAndTheTimeBetweenThemTakeTwiceAsLong) {
  JobScript job = TwoCalls();
  const Outcome outcome = Simulate(job, RoundLatencies(), nullptr, nullptr,
                                   [](Program& program) { ScaleCpu(program, 2); });
  // Calls 0 to 20 and 30 to 50; device work keeps its 4 us and its latency of 5.
  const Span b = outcome.Ran(0, "b");
  EXPECT_EQ(b.start, 35);
  EXPECT_EQ(b.end, 39);
}

TEST(ScaleCpu, OneChangesNothing) {
  JobScript job = TwoCalls();
  const Outcome outcome = Simulate(job, RoundLatencies(), nullptr, nullptr,
                                   [](Program& program) { ScaleCpu(program, 1); });
  EXPECT_EQ(outcome.Ran(0, "b").start, 20);
}

}  // namespace
}  // namespace foretrace
