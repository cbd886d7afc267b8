#include "simulator/reconstruct/launch_queues.h"

#include <string>

#include "gtest/gtest.h"
#include "tests/support/job_script.h"

namespace foretrace {
namespace {

// Kernels of 100 us one after the other from 0.1 s on. The first 1,020 are launched at once, each
// of `held` more when the kernel `depth` places before has started, which it returns 5 us after.
uint32_t Measured(int depth, int held) {
  JobScript job(1);
  const auto start = [](int k) { return 1e5 + 100.0 * k; };
  for (int k = 0; k < 1020 + held; ++k) {
    Span call = {6.0 * k, 6.0 * k + 4};
    if (k >= 1020) call = {start(k - depth) - 90, start(k - depth) + 5};
    job.rank(0).Kernel("k" + std::to_string(k), call, 7, {start(k), start(k) + 99});
  }
  const TraceStore store = job.Build();
  return MeasureQueueDepth(store.ranks()[0], 1021);
}

TEST(LaunchQueues, DepthIsAsTheRecordingShows) {
  EXPECT_EQ(Measured(1020, 10), 1020u);
  EXPECT_EQ(Measured(1021, 10), 1021u);
}

TEST(LaunchQueues, DepthIsAsStatedWhereFewLaunchesShowIt) { EXPECT_EQ(Measured(1020, 4), 1021u); }

TEST(LaunchQueues, DepthIsAtMostAsStated) { EXPECT_EQ(Measured(1019 + 5, 10), 1021u); }

}  // namespace
}  // namespace foretrace
