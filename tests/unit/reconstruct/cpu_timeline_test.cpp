// T1..T5 of a small timeline, and blocking calls in it.
#include "simulator/reconstruct/cpu_timeline.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "simulator/reconstruct/reconstruction.h"
#include "tests/support/job_script.h"
#include "tests/support/test_driver.h"

namespace foretrace {
namespace {

struct Timeline {
  explicit Timeline(JobScript& job, bool with_marks = false) : store(job.Build()) {
    const RankTrace& rank = store.ranks()[0];
    const RankReconstruction recording(store, rank, TestDriver());
    points = recording.TimelineOf(recording.order.timelines.at(0), {Us(3), Us(6)}, with_marks);
  }
  // "T1 aten::b 4" of each segment before the k-th call.
  std::vector<std::string> Segments(size_t k) const {
    std::vector<std::string> text;
    for (const OverheadSegment& s : points.segments_of(points.points[k])) {
      text.push_back(
          fmt::format("{} {} {:g}", Name(s.kind), store.strings().Get(s.op), s.time.us()));
    }
    return text;
  }
  TraceStore store;
  CpuTimelinePoints points;
};

IssueOrder OrderOf(JobScript& job) {
  const TraceStore store = job.Build();
  const RankTrace& rank = store.ranks()[0];
  return RankReconstruction(store, rank, TestDriver()).order;
}

using Text = std::vector<std::string>;

TEST(CpuTimeline, SplitsOverheadAlongOutermostOps) {
  JobScript job(1);
  job.rank(0)
      .Op("aten::a", {0, 30})
      .Kernel("k1", {5, 9}, 7, {10, 11})
      .Kernel("k2", {12, 17}, 7, {18, 19})
      .Op("aten::b", {40, 70})
      .Kernel("k3", {46, 50}, 7, {52, 53});
  const Timeline t(job);
  ASSERT_EQ(t.points.points.size(), 3u);
  EXPECT_EQ(t.points.points[0].duration, Us(4));  // T4
  EXPECT_EQ(t.Segments(1), Text{"T5 aten::a 3"});
  // After its last launch, between ops, before the next one's first launch.
  EXPECT_EQ(t.Segments(2), (Text{"T3 aten::a 13", "T1 aten::b 10", "T2 aten::b 6"}));
  EXPECT_EQ(t.points.points[2].lead, Us(29));
}

TEST(CpuTimeline, AnOpWithoutLaunchesIsT5) {
  JobScript job(1);
  job.rank(0)
      .Kernel("k1", {0, 4}, 7, {9, 10})
      .Op("aten::view", {6, 9})
      .Op("aten::c", {10, 20})
      .Kernel("k2", {12, 14}, 7, {16, 17});
  EXPECT_EQ(Timeline(job).Segments(1),
            (Text{"T1 aten::view 2", "T5 aten::view 3", "T1 aten::c 1", "T2 aten::c 2"}));
}

TEST(CpuTimeline, OverheadAfterABlockingCallBeginsWhenItsWorkEnded) {
  // The call's own length is not read, unless it returned over 20 us before its work ended.
  for (const double recorded_end : {31.0, 56.0, 70.0}) {
    JobScript job(1);
    job.rank(0)
        .Kernel("k1", {0, 4}, 7, {9, 50})
        .Call("sync", RuntimeCall::kDeviceSynchronize, {5, recorded_end})
        .Kernel("k2", {76, 80}, 7, {85, 90});
    const Timeline t(job);
    EXPECT_TRUE(t.points.points[1].blocking);
    EXPECT_EQ(t.points.points[1].duration, SimTime());
    EXPECT_EQ(t.points.points[2].lead, Us(20));  // 76 - (50 + 6)
  }
}

TEST(CpuTimeline, UnexplainedBlocksAreCounted) {
  JobScript job(1);
  job.rank(0)
      .Kernel("k1", {0, 4}, 7, {9, 50})
      .Call("sync", RuntimeCall::kDeviceSynchronize, {5, 300})
      .Kernel("k2", {310, 314}, 7, {320, 330});
  EXPECT_EQ(Timeline(job).points.unexplained_blocks, 1);
}

TEST(CpuTimeline, LongLaunchesBehindAFullQueueCostATypicalLaunch) {
  JobScript job(1);
  for (int k = 0; k < 1000; ++k) {
    const double at = 6.0 * k;
    job.rank(0).Kernel("k" + std::to_string(k), {at, at + 4}, 7, {1e5 + k, 1e5 + k + 0.5});
  }
  // 1,000 launches are outstanding: this one was held.
  job.rank(0).Kernel("held", {6000, 1e5}, 7, {2e5, 2e5 + 1});
  job.rank(0).Kernel("after", {1e5 + 7, 1e5 + 11}, 7, {3e5, 3e5 + 1});
  const Timeline t(job);
  EXPECT_EQ(t.points.queue_full_launches, 1);
  EXPECT_TRUE(t.points.points[1000].queue_full);
  EXPECT_EQ(t.points.points[1000].duration, Us(4));
  EXPECT_EQ(t.points.points[1001].lead, Us(7));
}

TEST(CpuTimeline, CopiesFromTheHostDoNotFillTheQueueOfKernels) {
  // As above, of which 30 are copies: 970 launches of kernels do not fill 98 % of 1,021 places, so
  // that what made the last one long was no queue.
  JobScript job(1);
  for (int k = 0; k < 1000; ++k) {
    const double at = 6.0 * k;
    const Span call = {at, at + 4}, run = {1e5 + k, 1e5 + k + 0.5};
    const std::string name = "k" + std::to_string(k);
    if (k < 30) {
      job.rank(0).Device(name, NodeKind::kMemcpy,
                         static_cast<uint8_t>(MemcpyKind::kHostToDevicePinned), call, 7, run);
    } else {
      job.rank(0).Kernel(name, call, 7, run);
    }
  }
  job.rank(0).Kernel("long", {6000, 1e5}, 7, {2e5, 2e5 + 1});
  EXPECT_EQ(Timeline(job).points.queue_full_launches, 0);
}

TEST(IssueOrder, ThreadsThatOverlapGetTimelinesOfTheirOwn) {
  JobScript hand_off(1);
  JobScript overlap(1);
  for (int k = 0; k < 10; ++k) {
    const double at = 20.0 * k;
    const std::string i = std::to_string(k);
    hand_off.rank(0).Kernel("m" + i, {at, at + 8}, 7, {at + 9, at + 10}, 1);
    hand_off.rank(0).Kernel("a" + i, {at + 10, at + 18}, 7, {at + 19, at + 20}, 2);
    overlap.rank(0).Kernel("m" + i, {at, at + 8}, 7, {at + 9, at + 10}, 1);
    overlap.rank(0).Kernel("a" + i, {at + 2, at + 9}, 8, {at + 19, at + 20}, 2);
  }
  EXPECT_EQ(OrderOf(hand_off).timelines.size(), 1u);
  EXPECT_EQ(OrderOf(overlap).timelines.size(), 2u);
}

TEST(IssueOrder, AThreadWhoseCallBlocksWhileAnotherLaunchesIsNoPartOfItsTimeline) {
  // A checkpoint thread waits 50 ms for one copy; the main thread launches every 10 us meanwhile.
  JobScript job(1);
  for (int k = 0; k < 100; ++k) {
    const double at = 10.0 * k;
    job.rank(0).Kernel("k" + std::to_string(k), {at, at + 4}, 7, {at + 5, at + 8}, 1);
  }
  job.rank(0).Device("copy", NodeKind::kMemcpy,
                     static_cast<uint8_t>(MemcpyKind::kDeviceToHostPageable), {100.5, 50100}, 8,
                     {120, 50095}, 2);
  const IssueOrder order = OrderOf(job);
  ASSERT_EQ(order.timelines.size(), 2u);
  EXPECT_EQ(order.timelines[0].calls.size(), 100u);
  EXPECT_EQ(order.timelines[1].calls.size(), 1u);
}

TEST(IssueOrder, ThreadsWithoutDeviceWorkAreLeftOut) {
  JobScript job(1);
  RankScript& rank = job.rank(0);
  rank.Kernel("a", {0, 4}, 7, {9, 100}).Kernel("b", {50, 54}, 7, {101, 200});
  rank.Call("host alloc", RuntimeCall::kMalloc, {5, 45}, 2);
  rank.Call("monitor", RuntimeCall::kEventSynchronize, {2, 150}, 3);
  const IssueOrder order = OrderOf(job);
  ASSERT_EQ(order.timelines.size(), 1u);
  EXPECT_EQ(order.timelines[0].threads.size(), 1u);
  EXPECT_EQ(order.timelines[0].calls.size(), 2u);
}

TEST(IssueOrder, AThreadThatWaitsWhileNobodyLaunchesTakesTurns) {
  JobScript job(1);
  job.rank(0)
      .Kernel("a", {0, 4}, 7, {9, 100}, 2)
      .Call("synchronize", RuntimeCall::kStreamSynchronize, {10, 103}, 1);
  const IssueOrder order = OrderOf(job);
  ASSERT_EQ(order.timelines.size(), 1u);
  EXPECT_EQ(order.timelines[0].calls.size(), 2u);
}

TEST(CpuTimeline, WorkInFlightWhenTheRecordingBeganFillsTheQueue) {
  JobScript job(1);
  for (int k = 0; k < 1000; ++k) {
    job.rank(0).InFlight("f" + std::to_string(k), 7, {1e4 + k, 1e4 + k + 0.5});
  }
  // 1,000 pieces of work are in flight: the first launch was held; the others are typical.
  job.rank(0).Kernel("held", {0, 10050}, 7, {2e4, 2e4 + 1});
  for (int k = 0; k < 4; ++k) {
    const double at = 11060 + 6.0 * k;
    job.rank(0).Kernel("k" + std::to_string(k), {at, at + 4}, 7, {2e4 + 2 + k, 2e4 + 2.5 + k});
  }
  const Timeline t(job, true);
  EXPECT_EQ(t.points.queue_full_launches, 1);
  EXPECT_TRUE(t.points.points[0].queue_full);
  EXPECT_EQ(t.points.points[0].duration, Us(4));
}

TEST(CpuTimeline, LaunchesThatAllWaitForRoomCostWhatIsLeftOnceThereIsSome) {
  // 1,100 pieces of work in flight, one of which starts every 25 us: each launch returns 5 us
  // later.
  JobScript job(1);
  for (int k = 0; k < 1100; ++k) {
    job.rank(0).InFlight("f" + std::to_string(k), 7, {25.0 * k + 20, 25.0 * k + 44});
  }
  for (int k = 0; k < 60; ++k) {
    const double at = 25.0 * k + 1;
    const double start = 25.0 * (1100 + k) + 20;
    job.rank(0).Kernel("k" + std::to_string(k), {at, at + 24}, 7, {start, start + 24});
  }
  const Timeline t(job, true);
  EXPECT_EQ(t.points.queue_full_launches, 60);
  EXPECT_EQ(t.points.points[0].duration, Us(5));
}

TEST(BlockingCopies, OnDevicesNoCopyBlocks) {
  JobScript job(1);
  job.rank(0).SyncCopy("copy", MemcpyKind::kDeviceToDevice, {0, 40}, 7, {9, 35});
  const TraceStore store = job.Build();
  const BlockingCopies copies(store.ranks()[0], store.strings(), TestDriver().staged_copy);
  EXPECT_FALSE(copies.Holds(FindNode(store, 0, "launch copy")));
}

// Pageable copies to the host of 60 us each; `returned` of 3 calls after 20 us, the rest after
// all.
int HeldCalls(int returned) {
  JobScript job(1);
  for (int k = 0; k < 3; ++k) {
    const double at = 200.0 * k;
    job.rank(0).Device("copy" + std::to_string(k), NodeKind::kMemcpy,
                       static_cast<uint8_t>(MemcpyKind::kDeviceToHostPageable),
                       {at, at + (k < returned ? 20 : 75)}, 7, {at + 10, at + 70});
  }
  const TraceStore store = job.Build();
  const BlockingCopies copies(store.ranks()[0], store.strings(), TestDriver().staged_copy);
  int held = 0;
  for (int k = 0; k < 3; ++k) {
    held += copies.Holds(FindNode(store, 0, "launch copy" + std::to_string(k))) ? 1 : 0;
  }
  return held;
}

TEST(BlockingCopies, CallsThatReturnedBeforeTheirCopiesEndedDidNotBlock) {
  EXPECT_EQ(HeldCalls(0), 3);
  EXPECT_EQ(HeldCalls(1), 2);
  // Most of the class returned before: it does not block.
  EXPECT_EQ(HeldCalls(2), 0);
}

// Profiles of ROCm name no kind of host memory, and such copies then count as pinned. The first
// goes on until the work before it and the copy are done; the second's stream was idle.
TEST(BlockingCopies, CallsThatWentOnUntilTheirCopiesEndedDidBlock) {
  const auto held = [](double returns) {
    JobScript job(1);
    const auto kind = static_cast<uint8_t>(MemcpyKind::kDeviceToHostPinned);
    job.rank(0).Kernel("work", {0, 5}, 7, {10, 400});
    job.rank(0).Device("behind", NodeKind::kMemcpy, kind, {20, returns}, 7, {401, 405});
    job.rank(0).Device("idle", NodeKind::kMemcpy, kind, {500, 520}, 7, {508, 512});
    const TraceStore store = job.Build();
    const BlockingCopies copies(store.ranks()[0], store.strings(), TestDriver().staged_copy);
    return std::pair(copies.Holds(FindNode(store, 0, "launch behind")),
                     copies.Holds(FindNode(store, 0, "launch idle")));
  };
  EXPECT_EQ(held(410), std::pair(true, true));  // what shows nothing is like what does
  EXPECT_EQ(held(30), std::pair(false, false));
}

// What took long before its copy began, and copies that end when their calls do on streams that did
// nothing before.
TEST(BlockingCopies, CallsThatTookLongThemselvesDidNotBlock) {
  JobScript job(1);
  job.rank(0).Device("copy", NodeKind::kMemcpy,
                     static_cast<uint8_t>(MemcpyKind::kDeviceToHostPinned), {0, 40'000}, 7,
                     {39'990, 39'995});
  job.rank(0).Device("short", NodeKind::kMemcpy,
                     static_cast<uint8_t>(MemcpyKind::kHostToDevicePinned), {41'000, 41'010}, 8,
                     {41'012, 41'014});
  const TraceStore store = job.Build();
  const BlockingCopies copies(store.ranks()[0], store.strings(), TestDriver().staged_copy);
  EXPECT_FALSE(copies.Holds(FindNode(store, 0, "launch copy")));
  EXPECT_FALSE(copies.Holds(FindNode(store, 0, "launch short")));
}

// Copies of a driver that names no kind of host memory: most return at once, after 6 us, but those
// in "item" go on until the work before them, some 50 us, and the copy are done. The last of those
// finds its stream idle, and is as the others of its place.
TEST(BlockingCopies, CallsThatTookLongerThanOthersDoDidBlock) {
  JobScript job(1);
  const auto kind = static_cast<uint8_t>(MemcpyKind::kDeviceToHostPinned);
  for (int k = 0; k < 6; ++k) {
    const double at = 1000.0 * k;
    const std::string n = std::to_string(k);
    const bool idle = k == 5;
    job.rank(0).Op("item", {at, at + 100});
    if (!idle) job.rank(0).Kernel("before" + n, {at + 1, at + 7}, 7, {at + 10, at + 70});
    const double copied = at + (idle ? 30 : 71);
    job.rank(0).Device("read" + n, NodeKind::kMemcpy, kind, {at + 20, copied + 5}, 7,
                       {copied, copied + 2});
    job.rank(0).Kernel("behind" + n, {at + 201, at + 207}, 7, {at + 210, at + 500});
    job.rank(0).Device("quick" + n, NodeKind::kMemcpy, kind, {at + 220, at + 226}, 7,
                       {at + 501, at + 503});
  }
  const TraceStore store = job.Build();
  const BlockingCopies copies(store.ranks()[0], store.strings(), TestDriver().staged_copy);
  for (int k = 0; k < 6; ++k) {
    EXPECT_TRUE(copies.Holds(FindNode(store, 0, "launch read" + std::to_string(k)))) << k;
    EXPECT_FALSE(copies.Holds(FindNode(store, 0, "launch quick" + std::to_string(k)))) << k;
  }
}

}  // namespace
}  // namespace foretrace
