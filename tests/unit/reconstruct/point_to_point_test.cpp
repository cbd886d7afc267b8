// Which sends and receives of different ranks belong together.
#include "simulator/reconstruct/communicators.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/support/job_script.h"

namespace foretrace {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(PointToPoint, DeclaredPeersPairInOrder) {
  JobScript job(2);
  for (int k = 0; k < 2; ++k) {
    const double at = 50.0 * k;
    const std::string name = "m" + std::to_string(k);
    job.rank(0).PointToPoint(name, NodeKind::kSend, 1, {at, at + 4}, 20, {at + 9, at + 20});
    job.rank(1).PointToPoint(name, NodeKind::kRecv, 0, {at, at + 4}, 20, {at + 9, at + 20});
  }
  const auto map = MatchCommunicators(job.Build());
  ASSERT_TRUE(map.ok()) << map.status();
  ASSERT_EQ(map->communicators.size(), 1u);
  EXPECT_EQ(map->communicators[0].name, "send/recv 0 to 1");
  ASSERT_EQ(map->rendezvous.size(), 2u);
  EXPECT_TRUE(map->rendezvous[0].point_to_point);
}

TEST(PointToPoint, UndeclaredPartnersAreFoundByTheirEnds) {
  JobScript job(4);
  for (int r = 0; r < 4; ++r) {
    const NodeKind kind = r % 2 == 0 ? NodeKind::kSend : NodeKind::kRecv;
    const double end = r / 2 == 0 ? 40.0 + r : 300.0 + r;
    job.rank(r).PointToPoint("m", kind, -1, {0, 4}, 20, {9, end});
  }
  const auto map = MatchCommunicators(job.Build());
  ASSERT_TRUE(map.ok()) << map.status();
  ASSERT_EQ(map->communicators.size(), 2u);
  EXPECT_THAT(map->communicators[0].ranks, ElementsAre(0, 1));
  EXPECT_THAT(map->communicators[1].ranks, ElementsAre(2, 3));
}

// Stage 1 exchanges with 0 and with 2 on one stream, in another order than they do it themselves.
TEST(PointToPoint, BatchedTransfersMeetByPartner) {
  JobScript job(3);
  for (int r = 0; r < 3; ++r) job.rank(r).Group("pp", {0, 1, 2});
  job.rank(0)
      .Exchange("a", "pp", {0, 8, 0}, {}, {0, 4}, 20, {9, 20})
      .Exchange("c", "pp", {0, 8, 0}, {0, 8, 0}, {5, 8}, 20, {30, 60});
  job.rank(1)
      .Exchange("a", "pp", {}, {8, 0, 0}, {0, 4}, 20, {9, 20})
      .Exchange("b", "pp", {0, 0, 8}, {}, {5, 8}, 20, {25, 40})
      .Exchange("c", "pp", {8, 0, 0}, {8, 0, 0}, {9, 12}, 20, {45, 60});
  job.rank(2).Exchange("b", "pp", {}, {0, 8, 0}, {0, 4}, 20, {9, 40});
  const TraceStore store = job.Build();
  const auto map = MatchCommunicators(store);
  ASSERT_TRUE(map.ok()) << map.status();
  ASSERT_EQ(map->rendezvous.size(), 3u);
  for (const MatchedRendezvous& rendezvous : map->rendezvous) {
    ASSERT_EQ(rendezvous.members.size(), 2u);
    EXPECT_EQ(rendezvous.missing_members, 0u);
    const auto name = [&](int m) {
      return store.name(store.ranks()[rendezvous.members[m].rank], rendezvous.members[m].node);
    };
    EXPECT_EQ(name(0), name(1));
  }
  ASSERT_EQ(map->communicators.size(), 3u);
  EXPECT_EQ(map->communicators[0].name, "send/recv 0 to 1");
  EXPECT_EQ(map->communicators[1].name, "exchange 0 and 1");
  EXPECT_EQ(map->communicators[2].name, "send/recv 1 to 2");
}

TEST(PointToPoint, KernelsOfARingAllMeet) {
  JobScript job(3);
  for (int r = 0; r < 3; ++r) {
    std::vector<int64_t> sent(3, 0), received(3, 0);
    sent[(r + 1) % 3] = received[(r + 2) % 3] = 8;
    job.rank(r).Group("cp", {0, 1, 2}).Exchange("x", "cp", sent, received, {0, 4}, 20, {9, 20});
  }
  const auto map = MatchCommunicators(job.Build());
  ASSERT_TRUE(map.ok()) << map.status();
  ASSERT_EQ(map->rendezvous.size(), 1u);
  EXPECT_EQ(map->rendezvous[0].members.size(), 3u);
  EXPECT_EQ(map->communicators[0].name, "exchange of ranks 0,1,2");
}

// Rank 1 answers rank 0's one kernel by two: all three belong together, by two transfers.
TEST(PointToPoint, OneKernelAgainstTwoKeepsBothTransfers) {
  JobScript job(2);
  for (int r = 0; r < 2; ++r) job.rank(r).Group("pp", {0, 1});
  job.rank(0).Exchange("x", "pp", {0, 8}, {0, 8}, {0, 4}, 20, {9, 40});
  job.rank(1)
      .Exchange("y", "pp", {}, {8, 0}, {0, 4}, 20, {9, 20})
      .Exchange("z", "pp", {8, 0}, {}, {5, 8}, 20, {25, 40});
  const TraceStore store = job.Build();
  const auto map = MatchCommunicators(store);
  ASSERT_TRUE(map.ok()) << map.status();
  ASSERT_EQ(map->rendezvous.size(), 1u);
  const MatchedRendezvous& rendezvous = map->rendezvous[0];
  EXPECT_EQ(rendezvous.missing_members, 0u);
  std::vector<std::string> transfers;
  for (const MatchedRendezvous::Transfer& t : rendezvous.transfers) {
    const auto name = [&](uint32_t m) {
      return store.name(store.ranks()[rendezvous.members[m].rank], rendezvous.members[m].node);
    };
    transfers.push_back(std::string(name(t.from)) + " to " + std::string(name(t.to)));
  }
  EXPECT_THAT(transfers, testing::UnorderedElementsAre("x to y", "z to x"));
}

// Rank 0 sends six, rank 1's profile lacks the receive of the fourth. The others keep their
// partners: receives end 90 us after the later of both has come, and would else end 910 us before.
TEST(PointToPoint, AReceiveMissingAmidOthersShiftsNone) {
  JobScript job(2);
  for (int k = 0; k < 6; ++k) {
    const double at = 1000.0 * k, late = 100.0 * (k % 3);
    const std::string name = "m" + std::to_string(k);
    job.rank(0).PointToPoint(name, NodeKind::kSend, 1, {at, at + 4}, 20, {at + 9, at + 100 + late});
    if (k == 3) continue;
    job.rank(1).PointToPoint(name, NodeKind::kRecv, 0, {at + late, at + late + 4}, 20,
                             {at + late + 10, at + late + 100});
  }
  const TraceStore store = job.Build();
  const auto map = MatchCommunicators(store);
  ASSERT_TRUE(map.ok()) << map.status();
  ASSERT_EQ(map->rendezvous.size(), 5u);
  for (const MatchedRendezvous& m : map->rendezvous) {
    EXPECT_EQ(store.name(store.ranks()[0], m.members[0].node),
              store.name(store.ranks()[1], m.members[1].node));
  }
  EXPECT_EQ(map->unmatched, 1);
  EXPECT_EQ(map->communicators[0].matched_by, MatchedBy::kAlignment);
  ASSERT_EQ(map->doubts.size(), 1u);
  EXPECT_THAT(map->doubts[0], HasSubstr("1 of 6 sends and 5 receives have no other end"));
}

// Rank 2 says that it receives from rank 0, and rank 1 that it sends to rank 2. That spoils nothing
// between ranks 0 and 1, the messages say what is wrong, and ends find who meets.
TEST(PointToPoint, OneBadChannelLeavesTheOthersAsDeclared) {
  JobScript job(3);
  for (int k = 0; k < 6; ++k) {
    const double at = 1000.0 * k;
    const std::string left = "l" + std::to_string(k), right = "r" + std::to_string(k);
    job.rank(0).PointToPoint(left, NodeKind::kSend, 1, {at, at + 4}, 20, {at + 9, at + 100});
    job.rank(1).PointToPoint(left, NodeKind::kRecv, 0, {at, at + 4}, 20, {at + 9, at + 101});
    job.rank(1).PointToPoint(right, NodeKind::kSend, 2, {at + 200, at + 204}, 21,
                             {at + 209, at + 300 + 10 * k});
    job.rank(2).PointToPoint(right, NodeKind::kRecv, 0, {at + 200, at + 204}, 21,
                             {at + 209, at + 301 + 10 * k});
  }
  const TraceStore store = job.Build();
  const auto map = MatchCommunicators(store);
  ASSERT_TRUE(map.ok()) << map.status();
  int by_partner = 0, by_ends = 0;
  for (const MatchedRendezvous& rendezvous : map->rendezvous) {
    ASSERT_EQ(rendezvous.members.size(), 2u);
    EXPECT_EQ(store.name(store.ranks()[rendezvous.members[0].rank], rendezvous.members[0].node),
              store.name(store.ranks()[rendezvous.members[1].rank], rendezvous.members[1].node));
    const MatchedBy how = map->communicators[rendezvous.communicator].matched_by;
    by_partner += how == MatchedBy::kPartner ? 1 : 0;
    by_ends += how == MatchedBy::kEnds ? 1 : 0;
  }
  EXPECT_EQ(by_partner, 6);
  EXPECT_EQ(by_ends, 6);
  ASSERT_EQ(map->doubts.size(), 2u);
  EXPECT_THAT(map->doubts[0], HasSubstr("(tag 0; 0 sends, 6 receives)"));
}

// Stage 1 between stages 0 and 2, all on one stream each, and nobody says who meets whom.
TEST(PointToPoint, KernelsOfAMiddleStageAreFoundByTheirEnds) {
  JobScript job(3);
  for (int k = 0; k < 6; ++k) {
    const double at = 1000.0 * k;
    const std::string left = "l" + std::to_string(k), right = "r" + std::to_string(k);
    const auto exchange = [&](int rank, const std::string& name, double end) {
      job.rank(rank).Exchange(name, "", {}, {}, {end - 90, end - 86}, 20, {end - 80, end});
    };
    exchange(0, left, at + 200 + k);
    exchange(1, left, at + 201 + k);
    exchange(1, right, at + 600 - 3 * k);
    exchange(2, right, at + 602 - 3 * k);
  }
  const TraceStore store = job.Build();
  const auto map = MatchCommunicators(store);
  ASSERT_TRUE(map.ok()) << map.status();
  ASSERT_EQ(map->communicators.size(), 2u);
  EXPECT_EQ(map->communicators[0].name, "exchange 0 and 1");
  EXPECT_EQ(map->communicators[1].name, "exchange 1 and 2");
  EXPECT_EQ(map->rendezvous.size(), 12u);
}

}  // namespace
}  // namespace foretrace
