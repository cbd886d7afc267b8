// Latencies measured on small recordings, by class.
#include "simulator/reconstruct/latencies.h"

#include <gtest/gtest.h>

#include <string>

#include "simulator/reconstruct/reconstruction.h"
#include "tests/support/job_script.h"
#include "tests/support/test_driver.h"

namespace foretrace {
namespace {

Latencies Measured(JobScript& job) {
  const TraceStore store = job.Build();
  const RankTrace& rank = store.ranks()[0];
  LatencyMeter meter;
  meter.Add(rank, RankReconstruction(store, rank, TestDriver()).sync);
  return meter.Measure(TestDriver().latencies);
}

// Kernels on an idle stream, started `latency` after the begin of their launch.
Latencies OfLaunches(int count) {
  JobScript job(1);
  for (int k = 0; k < count; ++k) {
    const double at = 1000.0 * k;
    // One launch is slow: the median does not see it.
    const double latency = k == 1 ? 40 : 7;
    job.rank(0).Kernel("k" + std::to_string(k), {at, at + 4}, 7, {at + latency, at + latency + 9});
  }
  return Measured(job);
}

TEST(LatencyMeter, LaunchLatencyIsTheMedianOnIdleStreams) {
  const Latencies latencies = OfLaunches(5);
  EXPECT_EQ(latencies.launch_of(LaunchClass::kKernel), Us(7));
  EXPECT_EQ(latencies.launch_samples[static_cast<size_t>(LaunchClass::kKernel)], 5);
  EXPECT_EQ(latencies.gap_samples[0], 0);
  EXPECT_EQ(latencies.event_samples, (std::array<int64_t, kEventClasses>{}));
}

TEST(LatencyMeter, FewerThanFiveSamplesLeaveTheDefault) {
  const Latencies latencies = OfLaunches(4);
  EXPECT_EQ(latencies.launch_of(LaunchClass::kKernel), SimTime::FromNs(8'000));
  EXPECT_EQ(latencies.launch_samples[static_cast<size_t>(LaunchClass::kKernel)], 0);
}

// Copies to pageable memory, each launched 2 us after the kernel before it had ended (`idle`) or
// while it ran, and started `latency` after the begin of their launch.
Latencies OfCopies(bool idle, double latency) {
  constexpr auto kToPageable = static_cast<uint8_t>(MemcpyKind::kDeviceToHostPageable);
  JobScript job(1);
  for (int k = 0; k < 6; ++k) {
    const double at = 1000.0 * k;
    job.rank(0).Kernel("k" + std::to_string(k), {at, at + 4}, 7, {at + 7, at + 98});
    const double issued = idle ? at + 100 : at + 90;
    job.rank(0).Device("copy" + std::to_string(k), NodeKind::kMemcpy, kToPageable,
                       {issued, issued + 3}, 7, {issued + latency, issued + latency + 2});
  }
  return Measured(job);
}

TEST(LatencyMeter, StreamsThatHaveOnlyJustBecomeIdleDoWhereNoneWasForLong) {
  const Latencies latencies = OfCopies(true, 9);
  EXPECT_EQ(latencies.launch_of(LaunchClass::kCopyToPageable), Us(9));
  EXPECT_EQ(latencies.launch_samples[static_cast<size_t>(LaunchClass::kCopyToPageable)], 6);
}

TEST(LatencyMeter, NoLaunchTakesLongerThanItsWorkTookToBegin) {
  // Copies that began right after a kernel, 9 us after their launch: the default of 12 is too long.
  EXPECT_EQ(OfCopies(false, 9).launch_of(LaunchClass::kCopyToPageable), Us(9));
  EXPECT_EQ(OfCopies(false, 40).launch_of(LaunchClass::kCopyToPageable),
            TestDriver().latencies.copy_to_pageable);
}

TEST(LatencyMeter, GapsOfABusyStreamAreAveraged) {
  // Launched at once, so that each waits for the one before: gaps of 1, 1, 1, 1 and 6 us.
  JobScript job(1);
  double end = 107;
  job.rank(0).Kernel("k", {0, 4}, 7, {7, end});
  for (int k = 0; k < 5; ++k) {
    const double start = end + (k == 4 ? 6 : 1);
    end = start + 100;
    job.rank(0).Kernel("k" + std::to_string(k), {10.0 + 5 * k, 13.0 + 5 * k}, 7, {start, end});
  }
  const Latencies latencies = Measured(job);
  EXPECT_EQ(latencies.gap_after(NodeKind::kKernel), Us(2));
  EXPECT_EQ(latencies.gap_samples[0], 5);
}

// On one stream, a copy and a kernel in turn, each launched at once: 9 us after a copy, 1 us after
// a kernel.
TEST(LatencyMeter, GapsAfterCopiesAreAClassOfTheirOwn) {
  JobScript job(1);
  double end = 107;
  job.rank(0).Kernel("k", {0, 4}, 7, {7, end});
  for (int k = 0; k < 10; ++k) {
    const bool copy = k % 2 == 0;
    const double start = end + (copy ? 1 : 9);
    end = start + 100;
    const Span call{10.0 + 5 * k, 13.0 + 5 * k};
    const std::string name = "w" + std::to_string(k);
    if (copy) {
      job.rank(0).Device(name, NodeKind::kMemcpy,
                         static_cast<uint8_t>(MemcpyKind::kHostToDevicePinned), call, 7,
                         {start, end});
    } else {
      job.rank(0).Kernel(name, call, 7, {start, end});
    }
  }
  const Latencies latencies = Measured(job);
  EXPECT_EQ(latencies.gap_after(NodeKind::kMemcpy), Us(9));
  EXPECT_EQ(latencies.gap_after(NodeKind::kKernel), Us(1));
  EXPECT_EQ(latencies.gap_samples, (std::array<int64_t, kGapClasses>{5, 5}));
}

TEST(LatencyMeter, EventLatencyIsTheMedianAfterWorkOfAnotherStream) {
  // Starts 3, 3, 3, 4 and 9 us after the end of what they depend on.
  JobScript job(1);
  for (int k = 0; k < 5; ++k) {
    const double at = 1000.0 * k;
    const double latency = k == 4 ? 9 : (k == 3 ? 4 : 3);
    const std::string i = std::to_string(k);
    job.rank(0)
        .Kernel("p" + i, {at, at + 4}, 7, {at + 7, at + 100})
        .Kernel("c" + i, {at + 10, at + 14}, 8, {at + 100 + latency, at + 120})
        .Depends("c" + i, "p" + i, DependencyKind::kSync);
  }
  const Latencies latencies = Measured(job);
  EXPECT_EQ(latencies.event_of(EventClass::kCompute), Us(3));
  EXPECT_EQ(latencies.event_samples[static_cast<size_t>(EventClass::kCompute)], 5);
}

TEST(LatencyMeter, CommunicationGivesNoSamplesNorDoesWorkAfterIt) {
  // On one busy stream, communication and a kernel in turn: gaps that may contain waiting.
  JobScript job(1);
  double end = 0;
  for (int k = 0; k < 6; ++k) {
    const std::string i = std::to_string(k);
    const double call = 4.0 * k;
    job.rank(0).Collective("ar" + i, CollectiveOp::kAllReduce, "", {call, call + 1}, 7,
                           {end + 50, end + 100});
    job.rank(0).Kernel("k" + i, {call + 2, call + 3}, 7, {end + 105, end + 200});
    end += 200;
  }
  const Latencies latencies = Measured(job);
  EXPECT_EQ(latencies.gap_samples[0], 0);
  EXPECT_EQ(latencies.launch_samples[static_cast<size_t>(LaunchClass::kKernel)], 0);
}

}  // namespace
}  // namespace foretrace
