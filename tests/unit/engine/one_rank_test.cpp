// One rank: CPU calls, streams, events, blocking calls. Recorded device times differ from the
// predicted ones on purpose: only durations and the CPU's own times may be taken over.
#include "tests/unit/engine/engine_fixture.h"

namespace foretrace {
namespace {

TEST(Launch, KernelStartsALatencyAfterItsCallBegins) {
  JobScript job(1);
  job.rank(0).Kernel("k", {0, 4}, 7, {9, 19});
  EXPECT_RAN(Simulate(job), 0, "k", 5, 15);  // 0 + 5; lasts 10
}

TEST(Launch, LateCallDelaysTheKernel) {
  JobScript job(1);
  job.rank(0).Kernel("a", {0, 4}, 7, {9, 19}).Kernel("b", {30, 34}, 7, {39, 40});
  const Outcome outcome = Simulate(job);
  EXPECT_RAN(outcome, 0, "launch b", 30, 34);
  EXPECT_RAN(outcome, 0, "b", 35, 36);
}

TEST(Stream, WorkFollowsInOrderAfterAGap) {
  JobScript job(1);
  job.rank(0).Kernel("a", {0, 4}, 7, {9, 19}).Kernel("b", {6, 10}, 7, {22, 42});
  EXPECT_RAN(Simulate(job), 0, "b", 16, 36);  // max(15 + gap 1, 6 + 5)
}

TEST(Stream, WorkThatBeganBeforeTheWorkBeforeEndedCountsFromThatEnd) {
  JobScript job(1);
  job.rank(0)
      .Kernel("a", {0, 4}, 7, {9, 109})
      .Kernel("b", {6, 10}, 7, {100, 120})
      .Kernel("c", {12, 16}, 7, {121, 131});
  const Outcome outcome = Simulate(job);
  EXPECT_RAN(outcome, 0, "b", 105, 116);  // a ends at 105, and b took 11 more; no gap
  EXPECT_RAN(outcome, 0, "c", 117, 127);
}

TEST(Stream, StreamsWithoutSynchronisationOverlap) {
  JobScript job(1);
  job.rank(0).Kernel("a", {0, 4}, 7, {9, 109}).Kernel("b", {6, 10}, 8, {22, 42});
  EXPECT_RAN(Simulate(job), 0, "b", 11, 31);
}

JobScript EventJob() {
  JobScript job(1);
  job.rank(0)
      .Kernel("a", {0, 4}, 7, {9, 109})
      .Call("record", RuntimeCall::kEventRecord, {4, 5})
      .Call("wait", RuntimeCall::kStreamWaitEvent, {5, 6})
      .Kernel("b", {6, 10}, 8, {112, 122})
      .Names("record", 1, 7)
      .Names("wait", 1, 8);
  return job;
}

TEST(Event, WorkBehindAStreamWaitFollowsTheRecordedWork) {
  JobScript job = EventJob();
  EXPECT_RAN(Simulate(job), 0, "b", 107, 117);  // a ends at 105, event latency 2
}

TEST(Event, WithoutStreamSyncNothingWaits) {
  JobScript job = EventJob();
  EXPECT_RAN(SimulateWithout(Ingredient::kStreamSync, job), 0, "b", 11, 21);
}

// Recorded: k ends at 109, the call returns at 115 = 109 + 6, and 9 us of overhead follow.
JobScript SynchronizeJob() {
  JobScript job(1);
  job.rank(0)
      .Kernel("k", {0, 4}, 7, {9, 109})
      .Call("sync", RuntimeCall::kDeviceSynchronize, {5, 115})
      .Kernel("next", {124, 128}, 7, {130, 140});
  return job;
}

TEST(Blocking, SynchroniseEndsWithTheDeviceWork) {
  JobScript job = SynchronizeJob();
  const Outcome outcome = Simulate(job);
  EXPECT_RAN(outcome, 0, "sync", 5, 111);           // k ends at 105, return 6 us later
  EXPECT_RAN(outcome, 0, "launch next", 120, 124);  // 111 + 9
  EXPECT_NEAR(outcome.prediction.ranks[0].blocked.us(), 106, 1e-6);
}

TEST(Blocking, SynchroniseOfAnIdleDeviceTakesItsCall) {
  JobScript job(1);
  job.rank(0)
      .Kernel("k", {0, 4}, 7, {9, 10})
      .Call("sync", RuntimeCall::kDeviceSynchronize, {50, 53})
      .Kernel("next", {60, 64}, 7, {70, 80});
  const Outcome outcome = Simulate(job);
  EXPECT_RAN(outcome, 0, "sync", 50, 53);
  EXPECT_RAN(outcome, 0, "launch next", 60, 64);
}

TEST(Blocking, WithoutBlockingACallCostsOnlyItself) {
  JobScript job = SynchronizeJob();
  const Outcome outcome = SimulateWithout(Ingredient::kBlocking, job);
  EXPECT_RAN(outcome, 0, "sync", 5, 8);
  EXPECT_RAN(outcome, 0, "launch next", 17, 21);
}

TEST(Blocking, PageableCopyToHostHoldsTheThread) {
  JobScript job(1);
  job.rank(0)
      .Device("copy", NodeKind::kMemcpy, static_cast<uint8_t>(MemcpyKind::kDeviceToHostPageable),
              {0, 40}, 7, {14, 34})
      .Kernel("next", {50, 54}, 7, {60, 70});
  const Outcome outcome = Simulate(job);
  EXPECT_RAN(outcome, 0, "copy", 5, 25);
  EXPECT_RAN(outcome, 0, "launch copy", 0, 31);   // 25 + 6
  EXPECT_RAN(outcome, 0, "launch next", 41, 45);  // recorded overhead: 50 - (34 + 6)
}

TEST(Blocking, PinnedCopyDoesNot) {
  JobScript job(1);
  job.rank(0)
      .Device("copy", NodeKind::kMemcpy, static_cast<uint8_t>(MemcpyKind::kDeviceToHostPinned),
              {0, 4}, 7, {14, 34})
      .Kernel("next", {6, 10}, 8, {60, 70});
  EXPECT_RAN(Simulate(job), 0, "launch next", 6, 10);
}

TEST(Blocking, SmallPageableCopyFromHostIsStagedAndReturns) {
  for (const int64_t bytes : {int64_t{64 * 1024}, int64_t{64 * 1024 + 1}}) {
    JobScript job(1);
    job.rank(0)
        .Device("copy", NodeKind::kMemcpy, static_cast<uint8_t>(MemcpyKind::kHostToDevicePageable),
                {0, 4}, 7, {5, 25})
        .CopiedBytes("copy", bytes)
        .Kernel("next", {60, 64}, 8, {70, 80});
    // Staged: the recorded 4 us. Larger: until the copy's end at 25, and 6 us to return.
    EXPECT_RAN(Simulate(job), 0, "launch copy", 0, bytes == 64 * 1024 ? 4 : 31);
  }
}

// An unexplained wait is cut at the end of the op around the call, whatever the call's own length.
TEST(Blocking, UnexplainedWaitWithinAnOpIsDropped) {
  for (const double recorded_end : {10.0, 200.0, 1005.0}) {
    JobScript job(1);
    job.rank(0)
        .Kernel("k", {0, 4}, 7, {9, 19})
        .Op("aten::item", {4, 1010})
        .Call("sync", RuntimeCall::kStreamSynchronize, {5, recorded_end})
        .Kernel("next", {1020, 1024}, 7, {1030, 1031});
    // k ends at 15, the call returns at 21, and what follows the op lasts 1020 - 1010.
    EXPECT_RAN(Simulate(job), 0, "launch next", 31, 35);
  }
}

TEST(LaunchQueue, LaunchWaitsForThe1021stBefore) {
  JobScript job(1);
  RankScript& rank = job.rank(0);
  rank.Kernel("k0", {0, 4}, 7, {5, 10005});
  for (int k = 1; k < 1100; ++k) {
    const double issued = 6.0 * k;
    rank.Kernel("k" + std::to_string(k), {issued, issued + 4}, 7,
                {10006.0 + 2 * (k - 1), 10007.0 + 2 * (k - 1)});
  }
  const Outcome outcome = Simulate(job);
  // k0 runs from 5 to 10005; k1 starts a gap later; from then on one kernel every 2 us.
  EXPECT_RAN(outcome, 0, "k1", 10006, 10007);
  EXPECT_RAN(outcome, 0, "launch k1021", 6 * 1021, 6 * 1021 + 4);  // k0 has started
  EXPECT_RAN(outcome, 0, "launch k1022", 10006, 10010);            // held until k1 starts
  EXPECT_RAN(outcome, 0, "launch k1023", 10012, 10016);            // k2 has started: 2 us overhead
}

TEST(LaunchQueue, EachStreamHasItsOwn) {
  JobScript job(1);
  RankScript& rank = job.rank(0);
  rank.Kernel("k0", {0, 4}, 7, {5, 10005});
  for (int k = 1; k < 1100; ++k) {
    const double issued = 6.0 * k;
    const int stream = k % 2 == 0 ? 7 : 8;
    rank.Kernel(
        "k" + std::to_string(k), {issued, issued + 4}, stream,
        stream == 8 ? Span{issued + 5, issued + 6} : Span{10006.0 + 2 * k, 10007.0 + 2 * k});
  }
  const Outcome outcome = Simulate(job);
  EXPECT_RAN(outcome, 0, "launch k1099", 6 * 1099, 6 * 1099 + 4);  // 549 before it on its stream
}

TEST(LaunchQueue, CopiesFromTheHostTakeNoPlaceAmongKernels) {
  JobScript job(1);
  RankScript& rank = job.rank(0);
  rank.Kernel("k0", {0, 4}, 7, {5, 10005});
  for (int k = 1; k < 1100; ++k) {
    const double issued = 6.0 * k;
    const Span at = {10006.0 + 2 * (k - 1), 10007.0 + 2 * (k - 1)};
    const std::string name = "k" + std::to_string(k);
    if (k == 500 || k == 600) {
      const auto kind = static_cast<uint8_t>(k == 500 ? MemcpyKind::kHostToDevicePinned
                                                      : MemcpyKind::kDeviceToDevice);
      rank.Device(name, NodeKind::kMemcpy, kind, {issued, issued + 4}, 7, at);
    } else {
      rank.Kernel(name, {issued, issued + 4}, 7, at);
    }
  }
  const Outcome outcome = Simulate(job);
  // As in the test before the last, but for the copy engine's k500: k1023 is the one that is held
  // until k1 starts, 1,021 pieces of the multiprocessors' work before it.
  EXPECT_RAN(outcome, 0, "launch k1022", 6 * 1022, 6 * 1022 + 4);
  EXPECT_RAN(outcome, 0, "launch k1023", 10006, 10010);
}

JobScript ContentionJob() {
  JobScript job(1);
  job.rank(0).Kernel("wide", {0, 4}, 7, {9, 49}).Kernel("other", {6, 10}, 8, {40, 60});
  job.rank(0).Waves("wide", 4000);
  return job;
}

TEST(Contention, OtherStreamsFindRoomWithTheLastWave) {
  JobScript job = ContentionJob();
  const Span other = Simulate(job).Ran(0, "other");
  // Four waves in 40 us: the last starts 30 us after 5. Shares are stored in 1/65536.
  EXPECT_NEAR(other.start, 35, 0.002);
  EXPECT_NEAR(other.end - other.start, 20, 1e-6);
}

TEST(Contention, CopiesWithinTheDeviceTakeRoomAndNeedIt) {
  // As ContentionJob(), of copies; those from the host go by copy engines.
  const auto other_start = [](MemcpyKind wide, MemcpyKind other) {
    JobScript job(1);
    job.rank(0)
        .Device("wide", NodeKind::kMemcpy, static_cast<uint8_t>(wide), {0, 4}, 7, {9, 49})
        .Device("other", NodeKind::kMemcpy, static_cast<uint8_t>(other), {6, 10}, 8, {40, 60})
        // Without a second stream of kernels nothing contends.
        .Kernel("k", {200, 204}, 8, {209, 219})
        .Waves("wide", 4000);
    return Simulate(job).Ran(0, "other").start;
  };
  EXPECT_NEAR(other_start(MemcpyKind::kDeviceToDevice, MemcpyKind::kDeviceToDevice), 35, 0.002);
  EXPECT_NEAR(other_start(MemcpyKind::kDeviceToDevice, MemcpyKind::kHostToDevicePinned), 11, 0.002);
  EXPECT_NEAR(other_start(MemcpyKind::kHostToDevicePinned, MemcpyKind::kDeviceToDevice), 11, 0.002);
}

TEST(Contention, KernelsOfAStreamWithPriorityTakeRoomAtOnce) {
  // `late` is when the wide kernels of stream 8 began, five times within one of stream 7 of four
  // waves in 400 us: 30 us after its begin, long before it has placed its blocks (300 us), or
  // after.
  const auto start_of_last = [](double late) {
    JobScript job(1);
    for (int k = 0; k < 5; ++k) {
      const double at = 1000.0 * k;
      const std::string i = std::to_string(k);
      job.rank(0)
          .Kernel("wide" + i, {at, at + 4}, 7, {at + 5, at + 405})
          .Kernel("other" + i, {at + 10, at + 14}, 8, {at + 5 + late, at + 105 + late})
          .Waves("wide" + i, 4000)
          .Waves("other" + i, 2000);
    }
    return Simulate(job).Ran(0, "other4").start;
  };
  EXPECT_NEAR(start_of_last(30), 4015, 0.02);   // its call and a latency of 5 us
  EXPECT_NEAR(start_of_last(310), 4305, 0.02);  // 5 us, and 3/4 of 400
}

TEST(Contention, WaitingForRoomIsNamedWithTheKernelThatTookIt) {
  class Causes : public EngineObserver {
   public:
    void OnNode(const NodeEvent& event) override { events.push_back(event); }
    std::vector<NodeEvent> events;
  };
  JobScript job = ContentionJob();
  Causes causes;
  const Outcome outcome = Simulate(job, RoundLatencies(), nullptr, &causes);
  const NodeIndex other = FindNode(outcome.store, 0, "other");
  for (const NodeEvent& event : causes.events) {
    if (event.node.node != other) continue;
    EXPECT_EQ(event.cause, WaitCause::kDeviceRoom);
    EXPECT_EQ(outcome.store.name(outcome.store.ranks()[0], event.binding.node), "wide");
  }
  EXPECT_FALSE(causes.events.empty());
}

TEST(Contention, CanBeSwitchedOff) {
  JobScript job = ContentionJob();
  EXPECT_RAN(SimulateWithout(Ingredient::kContention, job), 0, "other", 11, 31);
}

TEST(Ablation, WithoutCpuCallsTakeNoTime) {
  JobScript job(1);
  job.rank(0).Kernel("a", {0, 4}, 7, {9, 19}).Kernel("b", {100, 104}, 8, {109, 119});
  const Outcome outcome = SimulateWithout(Ingredient::kCpu, job);
  EXPECT_RAN(outcome, 0, "launch b", 0, 0);
  EXPECT_RAN(outcome, 0, "b", 5, 15);
}

TEST(Threads, HandOffsBetweenTwoThreadsKeepTheirOverhead) {
  JobScript job(1);
  job.rank(0)
      .Kernel("a", {0, 4}, 7, {9, 109})
      .Call("sync", RuntimeCall::kDeviceSynchronize, {5, 115})
      .Kernel("b", {120, 124}, 7, {130, 140}, 2);
  EXPECT_RAN(Simulate(job), 0, "launch b", 116, 120);  // sync ends at 111, 5 us of overhead
}

TEST(InFlight, WorkWithoutALaunchKeepsItsGap) {
  JobScript job(1);
  RankScript& rank = job.rank(0);
  rank.Kernel("k", {0, 4}, 7, {30, 40});
  RankTraceBuilder::NodeSpec spec;
  spec.kind = NodeKind::kKernel;
  spec.name = "before";
  spec.lane = rank.builder().AddLane(Lane::Kind::kStream, 7);
  spec.start = Us(2);
  spec.duration = Us(20);
  rank.builder().AddNode(spec);
  const Outcome outcome = Simulate(job);
  EXPECT_RAN(outcome, 0, "before", 2, 22);
  EXPECT_RAN(outcome, 0, "k", 23, 33);
  EXPECT_TRUE(outcome.prediction.job.reports[0].in_flight_at_start);
  EXPECT_EQ(outcome.prediction.job.reports[0].unlaunched_device_nodes, 1);
}

TEST(Iterations, AreMeasuredBetweenTheirMarks) {
  JobScript job(1);
  job.rank(0)
      .Step(3, {0, 120})
      .Kernel("a", {2, 6}, 7, {11, 111})
      .Call("sync", RuntimeCall::kDeviceSynchronize, {7, 117})
      .Step(4, {121, 200})
      .Kernel("b", {130, 134}, 7, {139, 149});
  const Outcome outcome = Simulate(job);
  EXPECT_TRUE(outcome.prediction.marked_iterations);
  const auto& iterations = outcome.prediction.ranks[0].iterations;
  ASSERT_EQ(iterations.size(), 2u);
  // a: 2 + 5 + 100 = 107, the call returns at 113, and 120 - 117 follow.
  EXPECT_EQ(iterations[0].number, 3);
  EXPECT_EQ(iterations[0].predicted_start, Us(0));
  EXPECT_EQ(iterations[0].predicted_end, Us(116));
  EXPECT_EQ(iterations[0].recorded_end - iterations[0].recorded_start, Us(120));
  // b is launched 9 us into the step; 66 us pass after its call.
  EXPECT_EQ(iterations[1].number, 4);
  EXPECT_EQ(iterations[1].predicted_start, Us(117));
  EXPECT_EQ(iterations[1].predicted_end, Us(196));
}

TEST(Iterations, WithoutMarksTheWholeTraceIsOne) {
  JobScript job(1);
  job.rank(0).Kernel("a", {0, 4}, 7, {9, 109});
  const Outcome outcome = Simulate(job);
  EXPECT_FALSE(outcome.prediction.marked_iterations);
  ASSERT_EQ(outcome.prediction.ranks[0].iterations.size(), 1u);
  EXPECT_EQ(outcome.prediction.ranks[0].iterations[0].predicted_end, Us(105));
}

TEST(PredictedCpuTime, IsLinearBetweenCalls) {
  JobScript job = SynchronizeJob();
  const Outcome outcome = Simulate(job);
  const Prediction& p = outcome.prediction;
  EXPECT_EQ(p.PredictedCpuTime(0, Us(2)), Us(2));          // within the first launch
  EXPECT_EQ(p.PredictedCpuTime(0, Us(60)), Us(58));        // half of [5, 115] is half of [5, 111]
  EXPECT_EQ(p.PredictedCpuTime(0, Us(119.5)), Us(115.5));  // half of [115, 124]: of [111, 120]
  EXPECT_EQ(p.PredictedCpuTime(0, Us(138)), Us(134));      // 10 us after the last call
}

}  // namespace
}  // namespace foretrace
