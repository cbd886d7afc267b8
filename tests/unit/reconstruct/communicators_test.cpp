// Which communication of different ranks belongs together.
#include "simulator/reconstruct/communicators.h"
#include "simulator/reconstruct/clock_bounds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/support/job_script.h"

namespace foretrace {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(Communicators, DeclaredGroupsMeetInOrder) {
  JobScript job(4);
  for (int r = 0; r < 4; ++r) {
    const std::string group = r % 2 == 0 ? "even" : "odd";
    job.rank(r)
        .Group("even", {0, 2})
        .Group("odd", {1, 3})
        .Collective("first", CollectiveOp::kAllReduce, group, {0, 4}, 20, {9, 20})
        .Collective("second", CollectiveOp::kAllGather, group, {5, 8}, 20, {21, 30});
  }
  const TraceStore store = job.Build();
  const auto map = MatchCommunicators(store);
  ASSERT_TRUE(map.ok()) << map.status();
  ASSERT_EQ(map->communicators.size(), 2u);
  EXPECT_THAT(map->communicators[0].ranks, ElementsAre(0, 2));
  EXPECT_THAT(map->communicators[1].ranks, ElementsAre(1, 3));
  EXPECT_TRUE(map->communicators[0].declared);
  EXPECT_EQ(map->communicators[0].rendezvous, 2);
  ASSERT_EQ(map->rendezvous.size(), 4u);
  for (const MatchedRendezvous& rendezvous : map->rendezvous) {
    ASSERT_EQ(rendezvous.members.size(), 2u);
    EXPECT_EQ(rendezvous.missing_members, 0u);
    const auto name = [&](int m) {
      return store.name(store.ranks()[rendezvous.members[m].rank], rendezvous.members[m].node);
    };
    EXPECT_EQ(name(0), name(1));
  }
}

// Ranks 0 and 1 end together, and so do 2 and 3; the pairs drift apart.
TEST(Communicators, UndeclaredStreamsAreGroupedByTheirEnds) {
  JobScript job(4);
  for (int r = 0; r < 4; ++r) {
    for (int k = 0; k < 8; ++k) {
      const double end = 100.0 * k + 40 + (r >= 2 ? 7.0 * k : 0) + 0.1 * (r % 2);
      job.rank(r).Collective("c" + std::to_string(k), CollectiveOp::kAllReduce, "",
                             {100.0 * k, 100.0 * k + 4}, 20, {100.0 * k + 9, end});
    }
    // A second stream leaves the choice open.
    job.rank(r).Collective("other", CollectiveOp::kAllGather, "", {900, 904}, 21,
                           {909, 940.0 + 30 * (r / 2)});
  }
  const auto map = MatchCommunicators(job.Build());
  ASSERT_TRUE(map.ok()) << map.status();
  int pairs = 0;
  for (const MatchedCommunicator& c : map->communicators) {
    EXPECT_FALSE(c.declared);
    if (c.rendezvous == 8) {
      ASSERT_EQ(c.ranks.size(), 2u) << c.name;
      EXPECT_EQ(c.ranks[0] / 2, c.ranks[1] / 2) << c.name;
      ++pairs;
    }
  }
  EXPECT_EQ(pairs, 2);
}

// Rank 1's recording began one collective later.
TEST(Communicators, RecordingsCutAtDifferentPlacesAreShifted) {
  JobScript job(2);
  for (int r = 0; r < 2; ++r) {
    job.rank(r).Group("world", {0, 1});
    for (int k = r; k < 8; ++k) {
      job.rank(r).Collective("c" + std::to_string(k), CollectiveOp::kAllReduce, "world",
                             {100.0 * k, 100.0 * k + 4}, 20, {100.0 * k + 9, 100.0 * k + 40 + k});
    }
  }
  const TraceStore store = job.Build();
  const auto map = MatchCommunicators(store);
  ASSERT_TRUE(map.ok()) << map.status();
  EXPECT_EQ(map->rendezvous.size(), 7u);
  EXPECT_EQ(map->unmatched, 1);
  EXPECT_EQ(map->communicators[0].matched_by, MatchedBy::kAlignment);
  for (const MatchedRendezvous& m : map->rendezvous) {
    EXPECT_EQ(store.name(store.ranks()[0], m.members[0].node),
              store.name(store.ranks()[1], m.members[1].node));
  }
}

// Of thousands of shifts the right one is found by some of the operations.
TEST(Communicators, LongRecordingsCutFarApartAreShifted) {
  JobScript job(2);
  for (int r = 0; r < 2; ++r) {
    job.rank(r).Group("world", {0, 1});
    for (int k = 1500 * r; k < 6000; ++k) {
      const double at = 100.0 * k;
      job.rank(r).Collective("c" + std::to_string(k), CollectiveOp::kAllReduce, "world",
                             {at, at + 4}, 20, {at + 9, at + 20 + k * 7919 % 61});
    }
  }
  const TraceStore store = job.Build();
  const auto map = MatchCommunicators(store);
  ASSERT_TRUE(map.ok()) << map.status();
  ASSERT_EQ(map->rendezvous.size(), 4500u);
  for (const MatchedRendezvous& m : map->rendezvous) {
    ASSERT_EQ(store.name(store.ranks()[0], m.members[0].node),
              store.name(store.ranks()[1], m.members[1].node));
  }
}

// Rank 0 recorded steps 1 to 3, rank 1 steps 2 to 4, of two all-reduces each, on one clock. Order
// alone would have each meet one that came a step later.
TEST(Communicators, StepsOfOneNumberMeet) {
  JobScript job(2);
  for (int r = 0; r < 2; ++r) {
    job.rank(r).Group("world", {0, 1});
    for (int step = 1 + r; step <= 3 + r; ++step) {
      const double at = 1000.0 * step;
      job.rank(r).Step(step, {at, at + 900});
      for (int k = 0; k < 2; ++k) {
        const double begin = at + 400.0 * k;
        job.rank(r).Collective("s" + std::to_string(step) + "c" + std::to_string(k),
                               CollectiveOp::kAllReduce, "world", {begin + 10, begin + 14}, 20,
                               {begin + 20, begin + 60 + step});
      }
    }
  }
  const TraceStore store = job.Build();
  const auto map = MatchCommunicators(store);
  ASSERT_TRUE(map.ok()) << map.status();
  EXPECT_EQ(map->rendezvous.size(), 4u);
  EXPECT_EQ(map->unmatched, 4);
  for (const MatchedRendezvous& m : map->rendezvous) {
    EXPECT_EQ(store.name(store.ranks()[0], m.members[0].node),
              store.name(store.ranks()[1], m.members[1].node));
  }
  EXPECT_EQ(EstimateClockOffsets(store, *map)[1], SimTime());
}

// The same without marks of steps, but numbered by the library; rank 1's profile lacks the 6th in
// its middle besides, and its clock is far off, which numbers allow.
TEST(Communicators, OperationsOfOneNumberMeet) {
  JobScript job(2);
  for (int r = 0; r < 2; ++r) {
    job.rank(r).Group("world", {0, 1});
    for (int k = r; k < 8 + r; ++k) {
      if (r == 1 && k == 6) continue;
      const double begin = 100.0 * k + 5000.0 * r;
      job.rank(r).Collective("c" + std::to_string(k), CollectiveOp::kAllReduce, "world",
                             {begin, begin + 4}, 20, {begin + 9, begin + 40}, 1000, -1, 70 + k);
    }
  }
  const TraceStore store = job.Build();
  const auto map = MatchCommunicators(store);
  ASSERT_TRUE(map.ok()) << map.status();
  EXPECT_EQ(map->communicators[0].matched_by, MatchedBy::kNumber);
  EXPECT_EQ(map->rendezvous.size(), 6u);  // 1 to 5, and 7
  EXPECT_EQ(map->unmatched, 3);           // rank 0's 0 and 6, rank 1's 8
  for (const MatchedRendezvous& m : map->rendezvous) {
    EXPECT_EQ(store.name(store.ranks()[0], m.members[0].node),
              store.name(store.ranks()[1], m.members[1].node));
  }
  const auto offsets = EstimateClockOffsets(store, *map);
  EXPECT_EQ(offsets[1], Us(-5000));
  EXPECT_TRUE(CheckClockOffsets(store, *map, offsets).ok());
}

// Rank 1 counts from one more, and what has one number is another operation: order decides.
TEST(Communicators, NumbersThatContradictOperationsSayNothing) {
  JobScript job(2);
  for (int r = 0; r < 2; ++r) {
    job.rank(r).Group("world", {0, 1});
    for (int k = 0; k < 4; ++k) {
      job.rank(r).Collective("c" + std::to_string(k),
                             k % 2 == 0 ? CollectiveOp::kAllReduce : CollectiveOp::kAllGather,
                             "world", {100.0 * k, 100.0 * k + 4}, 20,
                             {100.0 * k + 9, 100.0 * k + 40}, 1000, -1, 70 + k + r);
    }
  }
  const auto map = MatchCommunicators(job.Build());
  ASSERT_TRUE(map.ok()) << map.status();
  EXPECT_EQ(map->communicators[0].matched_by, MatchedBy::kOrder);
  EXPECT_EQ(map->unmatched, 0);
}

TEST(Communicators, OfOneNumberButAnotherOperationIsAnError) {
  JobScript job(2);
  for (int r = 0; r < 2; ++r) {
    job.rank(r)
        .Group("world", {0, 1})
        .Collective("c", r == 0 ? CollectiveOp::kAllReduce : CollectiveOp::kAllGather, "world",
                    {0, 4}, 20, {9, 40}, 1000, -1, 5);
  }
  const auto map = MatchCommunicators(job.Build());
  ASSERT_FALSE(map.ok());
  EXPECT_THAT(std::string(map.status().message()), HasSubstr("ranks disagree on operation 1"));
}

// Eight all-reduces each, of which the fourth is the large one on rank 0 and the third on rank 1,
// whose recording began one later.
TEST(Communicators, SizesTellWhichOperationsMeet) {
  JobScript job(2);
  for (int r = 0; r < 2; ++r) {
    job.rank(r).Group("world", {0, 1});
    for (int k = r; k < 8 + r; ++k) {
      job.rank(r).Collective("c" + std::to_string(k), CollectiveOp::kAllReduce, "world",
                             {100.0 * k, 100.0 * k + 4}, 20, {100.0 * k + 9, 100.0 * k + 40},
                             k == 3 ? 9000 : 1000);
    }
  }
  const TraceStore store = job.Build();
  const auto map = MatchCommunicators(store);
  ASSERT_TRUE(map.ok()) << map.status();
  EXPECT_EQ(map->rendezvous.size(), 7u);
  EXPECT_TRUE(map->doubts.empty());
  for (const MatchedRendezvous& m : map->rendezvous) {
    EXPECT_EQ(store.name(store.ranks()[0], m.members[0].node),
              store.name(store.ranks()[1], m.members[1].node));
  }
}

// Rank 1 lacks the first collective too, but ran kernels before the first and after the last: its
// recording was not cut there, so that no shift explains it.
TEST(Communicators, WhatARecordingCoversItMustHold) {
  JobScript job(2);
  job.rank(1).Kernel("early", {0, 2}, 7, {3, 5});
  for (int r = 0; r < 2; ++r) {
    job.rank(r).Group("world", {0, 1});
    for (int k = r; k < 8; ++k) {
      job.rank(r).Collective("c" + std::to_string(k), CollectiveOp::kAllReduce, "world",
                             {100.0 * k, 100.0 * k + 4}, 20, {100.0 * k + 9, 100.0 * k + 40 + k});
    }
  }
  job.rank(1).Kernel("late", {890, 892}, 7, {900, 905});
  const auto map = MatchCommunicators(job.Build());
  ASSERT_FALSE(map.ok());
  EXPECT_THAT(std::string(map.status().message()), HasSubstr("rank 1 has only 7 operations"));
}

TEST(Communicators, DisagreementNamesBothRanksAndNodes) {
  JobScript job(2);
  for (int r = 0; r < 2; ++r) {
    job.rank(r)
        .Group("world", {0, 1})
        .Collective("a", CollectiveOp::kAllReduce, "world", {0, 4}, 20, {9, 20})
        .Collective("b", CollectiveOp::kAllGather, "world", {5, 9}, 20, {21, 30})
        .Collective("c", CollectiveOp::kReduceScatter, "world", {10, 14}, 20, {31, 40})
        .Collective("d", r == 0 ? CollectiveOp::kAllReduce : CollectiveOp::kAllGather, "world",
                    {15, 19}, 20, {41, 50});
  }
  const auto map = MatchCommunicators(job.Build());
  ASSERT_FALSE(map.ok());
  const std::string message(map.status().message());
  EXPECT_THAT(message, HasSubstr("communicator \"world\": ranks disagree on operation 4"));
  EXPECT_THAT(message, HasSubstr("rank 0 has all_reduce of 1000 bytes at node"));
  EXPECT_THAT(message, HasSubstr("rank 1 has all_gather of 1000 bytes at node"));
  EXPECT_THAT(message, HasSubstr("--process-groups"));
}

// Five streams do the same; two pairs end together, and one rank with nobody.
TEST(Communicators, GroupsOfUnequalSizeAreDoubted) {
  JobScript job(5);
  for (int r = 0; r < 5; ++r) {
    for (int k = 0; k < 8; ++k) {
      const double at = 1000.0 * k + 90.0 * (k % 7) * k * (r / 2);
      job.rank(r).Collective("c" + std::to_string(k), CollectiveOp::kAllReduce, "", {at, at + 4},
                             20, {at + 9, at + 40 + 0.1 * (r % 2)});
    }
  }
  const auto map = MatchCommunicators(job.Build());
  ASSERT_TRUE(map.ok()) << map.status();
  ASSERT_EQ(map->communicators.size(), 3u);
  ASSERT_EQ(map->doubts.size(), 1u);
  EXPECT_THAT(map->doubts[0], HasSubstr("--process-groups FILE"));
}

// As many all-reduces on both, which end at other times: two groups that only run alike.
TEST(Communicators, OneStreamARankIsNotAlwaysOneGroup) {
  JobScript job(4);
  for (int r = 0; r < 4; ++r) {
    for (int k = 0; k < 8; ++k) {
      const double at = 1000.0 * k + (r >= 2 ? 90.0 * (k % 7) * k : 0);
      job.rank(r).Collective("c" + std::to_string(k), CollectiveOp::kAllReduce, "", {at, at + 4},
                             20, {at + 9, at + 40 + 0.1 * (r % 2)});
    }
  }
  const auto map = MatchCommunicators(job.Build());
  ASSERT_TRUE(map.ok()) << map.status();
  ASSERT_EQ(map->communicators.size(), 2u);
  EXPECT_THAT(map->communicators[0].ranks, ElementsAre(0, 1));
  EXPECT_THAT(map->communicators[1].ranks, ElementsAre(2, 3));
}

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
// each time, by ever more, and both leave together: a sender that does not wait would leave before
// it.
TEST(ClockOffsets, FollowFromSendersThatWaited) {
  for (const bool waits : {true, false}) {
    JobScript job(2);
    for (int k = 0; k < 6; ++k) {
      const double at = 1000.0 * (k + 1);
      const double there = at + 130, late = 30.0 * k;
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
    // Up to 20 us is within the noise of one clock.
    EXPECT_EQ(offsets[1], ahead == 500.0 ? Us(-500) : SimTime());
  }
}

}  // namespace
}  // namespace foretrace
