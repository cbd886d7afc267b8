// T1..T5 of a small timeline, and blocking calls in it.
#include "simulator/reconstruct/cpu_timeline.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/job_script.h"

namespace foretrace {
namespace {

struct Timeline {
  explicit Timeline(JobScript& job) : store(job.Build()) {
    const RankTrace& rank = store.ranks()[0];
    const DeviceIndex index(rank, store.strings());
    const IssueOrder order = FindIssueOrder(rank);
    const RankSync sync = InferSync(rank, index, order);
    points = BuildCpuTimeline(rank, order.timelines.at(0), index, sync, {Us(3), Us(6)}, false);
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
  for (const double recorded_end : {10.0, 56.0, 70.0}) {  // the call's own length is not read
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
  EXPECT_EQ(FindIssueOrder(hand_off.Build().ranks()[0]).timelines.size(), 1u);
  EXPECT_EQ(FindIssueOrder(overlap.Build().ranks()[0]).timelines.size(), 2u);
}

}  // namespace
}  // namespace foretrace
