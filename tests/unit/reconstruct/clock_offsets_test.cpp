// By how much the clocks of ranks differ.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "simulator/reconstruct/clock_bounds.h"
#include "simulator/reconstruct/communicators.h"
#include "tests/support/job_script.h"

namespace foretrace {
namespace {

using testing::HasSubstr;

// Rank 1's clock is 700 us behind: it seems to receive 600 us before rank 0 sends. With rank 1's
// clock 70 us ahead or behind nothing is impossible, and sends may be buffered: no offset.
TEST(ClockOffsets, FollowFromTransfersWhoseOrderIsImpossible) {
  for (const double ahead : {-700.0, -70.0, 70.0}) {
    JobScript job(2);
    for (int k = 0; k < 6; ++k) {
      const double at = 1000.0 * (k + 1);
      const double there = at + ahead;
      const std::string name = "m" + std::to_string(k);
      job.rank(0).PointToPoint(name, NodeKind::kSend, 1, {at, at + 4}, 20, {at + 9, at + 109});
      job.rank(1).PointToPoint(name, NodeKind::kRecv, 0, {there, there + 4}, 20,
                               {there + 9, there + 109});
    }
    const TraceStore store = job.Build();
    const auto map = MatchCommunicators(store);
    ASSERT_TRUE(map.ok()) << map.status();
    EXPECT_EQ(EstimateClockOffsets(store, *map)[1], ahead == -700.0 ? Us(700) : SimTime());
  }
}

// Rank 1's clock is 130 us ahead, so that nothing is impossible. It comes later than its sender
// each time, by ever more or by as much, and both leave together: one that does not wait would
// leave before it.
TEST(ClockOffsets, FollowFromSendersThatWaited) {
  for (const auto& [waits, steady] : {std::pair(true, false), std::pair(true, true),
                                      std::pair(false, false), std::pair(false, true)}) {
    JobScript job(2);
    for (int k = 0; k < 6; ++k) {
      const double at = 1000.0 * (k + 1);
      const double there = at + 130, late = steady ? 60.0 : 30.0 * k;
      const std::string name = "m" + std::to_string(k);
      job.rank(0).PointToPoint(name, NodeKind::kSend, 1, {at, at + 4}, 20,
                               {at + 9, at + 109 + (waits ? late : 0)});
      job.rank(1).PointToPoint(name, NodeKind::kRecv, 0, {there + late, there + late + 4}, 20,
                               {there + late + 9, there + late + 109});
    }
    const TraceStore store = job.Build();
    const auto map = MatchCommunicators(store);
    ASSERT_TRUE(map.ok()) << map.status();
    EXPECT_EQ(EstimateClockOffsets(store, *map)[1], waits ? Us(-130) : SimTime());
  }
}

// A ring of three, each of which comes at another time and leaves when all have come. Rank 2's
// clock is 90 us behind.
TEST(ClockOffsets, FollowFromRingsThatWaited) {
  JobScript job(3);
  for (int k = 0; k < 6; ++k) {
    const double at = 1000.0 * (k + 1);
    for (int r = 0; r < 3; ++r) {
      const double own = at + 40.0 * ((k * (r + 1)) % 5) - (r == 2 ? 90 : 0);
      const double end = at + 300 - (r == 2 ? 90 : 0);
      std::vector<int64_t> sent(3, 0), received(3, 0);
      sent[static_cast<size_t>((r + 1) % 3)] = received[static_cast<size_t>((r + 2) % 3)] = 1000;
      job.rank(static_cast<size_t>(r))
          .Group("world", {0, 1, 2})
          .Exchange("ring" + std::to_string(k), "world", sent, received, {own, own + 4}, 20,
                    {own + 9, end});
    }
  }
  const TraceStore store = job.Build();
  const auto map = MatchCommunicators(store);
  ASSERT_TRUE(map.ok()) << map.status();
  const auto offsets = EstimateClockOffsets(store, *map);
  EXPECT_EQ(offsets[1], SimTime());
  EXPECT_EQ(offsets[2], Us(90));
}

// Two ranks each of which sends to the other end together. Their broadcasts end 37 us apart each
// time, since the root, which does not wait, always comes that much earlier: no difference of
// clocks.
TEST(ClockOffsets, DoNotFollowFromRootsThatAlwaysComeAsEarly) {
  for (const bool exchanges : {true, false}) {
    JobScript job(2);
    for (int k = 0; k < 6; ++k) {
      for (int r = 0; r < 2; ++r) {
        const double at = 2000.0 * (k + 1);
        const double own = at + 37 * r;
        RankScript& rank = job.rank(static_cast<size_t>(r)).Group("world", {0, 1});
        rank.Collective("b" + std::to_string(k), CollectiveOp::kBroadcast, "world", {own, own + 4},
                        20, {own + 9, own + 109}, 1000, 0);
        if (!exchanges) continue;
        std::vector<int64_t> sizes(2, 0);
        sizes[static_cast<size_t>(1 - r)] = 1000;
        rank.Exchange("e" + std::to_string(k), "world", sizes, sizes, {own + 500, own + 504}, 24,
                      {own + 509, at + 900});
      }
    }
    const TraceStore store = job.Build();
    const auto map = MatchCommunicators(store);
    ASSERT_TRUE(map.ok()) << map.status();
    EXPECT_EQ(EstimateClockOffsets(store, *map)[1], SimTime());
    EXPECT_EQ(EstimateClocks(store, *map).unknown[1], !exchanges);
  }
}

// What is not corrected, since one clock can be wrong by as much, is told.
TEST(ClockOffsets, WithinTheNoiseOfOneClockStay) {
  JobScript job(2);
  for (int k = 0; k < 3; ++k) {
    for (int r = 0; r < 2; ++r) {
      const double own = 1000.0 * (k + 1) + 15 * r;
      job.rank(static_cast<size_t>(r))
          .Group("world", {0, 1})
          .Collective("a" + std::to_string(k), CollectiveOp::kAllReduce, "world", {own, own + 4},
                      20, {own + 9, own + 109}, 1000);
    }
  }
  const TraceStore store = job.Build();
  const auto map = MatchCommunicators(store);
  ASSERT_TRUE(map.ok()) << map.status();
  const ClockEstimate clocks = EstimateClocks(store, *map);
  EXPECT_EQ(clocks.offsets[1], SimTime());
  EXPECT_EQ(clocks.within_noise[1], Us(-15));
}

// Broadcasts of roots that do not wait, in turns: how far apart the ranks leave varies, so that
// their ends say nothing of clocks. Rank 1's is 300 us behind: it seems to leave up to 200 us
// before its root comes.
TEST(ClockOffsets, AreAtLeastWhatKeepsTheOrderOfTransfers) {
  for (const double behind : {300.0, 5'000.0, 0.0}) {
    JobScript job(2);
    for (int k = 0; k < 8; ++k) {
      const int root = k % 2;
      for (int r = 0; r < 2; ++r) {
        const double own = 10'000.0 * (k + 1) - (r == 1 ? behind : 0);
        const double end = r == root ? 20 : 109 + 10 * k;
        job.rank(r)
            .Group("world", {0, 1})
            .Collective("b" + std::to_string(k), CollectiveOp::kBroadcast, "world", {own, own + 4},
                        20, {own + 9, own + end}, 1000, root);
      }
    }
    const TraceStore store = job.Build();
    const auto map = MatchCommunicators(store);
    ASSERT_TRUE(map.ok()) << map.status();
    std::vector<SimTime> offsets = EstimateClockOffsets(store, *map);
    EXPECT_EQ(offsets[1], SimTime());
    EXPECT_TRUE(EstimateClocks(store, *map).unknown[1]);
    const std::vector<bool> raised = KeepOrderOfTransfers(store, *map, offsets);
    // Beyond a millisecond something else is wrong.
    EXPECT_EQ(raised[1], behind == 300.0);
    EXPECT_EQ(offsets[1], behind == 300.0 ? Us(200) : SimTime());
    EXPECT_EQ(offsets[0], SimTime());
  }
}

// Two ranks that recorded different steps and say nothing of it: what they seem to have done
// together lies 2.1 ms apart, and their steps take 1 ms.
TEST(ClockOffsets, BeyondAStepAreRefused) {
  JobScript job(2);
  for (int r = 0; r < 2; ++r) {
    job.rank(r).Group("world", {0, 1}).Step(1, {2100.0 * r, 2100.0 * r + 1000});
    for (int k = 0; k < 4; ++k) {
      const double at = 2100.0 * r + 200 * k;
      job.rank(r).Collective("c" + std::to_string(k), CollectiveOp::kAllReduce, "world",
                             {at + 1, at + 4}, 20, {at + 9, at + 40});
    }
  }
  const TraceStore store = job.Build();
  const auto map = MatchCommunicators(store);
  ASSERT_TRUE(map.ok()) << map.status();
  const absl::Status status = CheckClockOffsets(store, *map, EstimateClockOffsets(store, *map));
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("script: the clock of rank 1 seems to be 2100 us ahead of that of rank 0, "
                        "more than a step (1000 us): "));
}

// Rank 1's clock is 500 us ahead: its collectives seem to end that much later.
TEST(ClockOffsets, AreTheMedianDifferenceOfEnds) {
  for (const double ahead : {0.0, 10.0, 500.0}) {
    JobScript job(2);
    for (int r = 0; r < 2; ++r) {
      job.rank(r).Group("world", {0, 1});
      for (int k = 0; k < 5; ++k) {
        const double at = 100.0 * k + ahead * r;
        job.rank(r).Collective("c" + std::to_string(k), CollectiveOp::kAllReduce, "world",
                               {at, at + 4}, 20, {at + 9, at + 40});
      }
    }
    const TraceStore store = job.Build();
    const auto map = MatchCommunicators(store);
    ASSERT_TRUE(map.ok()) << map.status();
    const auto offsets = EstimateClockOffsets(store, *map);
    EXPECT_EQ(offsets[0], SimTime());
    EXPECT_FALSE(EstimateClocks(store, *map).unknown[1]);
    // Up to 20 us is within the noise of one clock.
    EXPECT_EQ(offsets[1], ahead == 500.0 ? Us(-500) : SimTime());
  }
}

}  // namespace
}  // namespace foretrace
