// Which communication of different ranks belongs together.
#include "simulator/reconstruct/communicators.h"

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

}  // namespace
}  // namespace foretrace
