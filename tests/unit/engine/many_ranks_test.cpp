// Ranks that meet: collectives, sends and receives, start skew, absent ranks, deadlock.
#include <gmock/gmock.h>

#include "simulator/engine/deadlock.h"
#include "simulator/engine/executor.h"
#include "tests/unit/engine/engine_fixture.h"

namespace foretrace {
namespace {

using testing::HasSubstr;
using testing::Not;

// Rank 1 begins 20 us after rank 0, and both reach the all-reduce at once. Recorded: rank 0 arrives
// at 9, rank 1 at 29, both leave at 49; so it lasts 20 us from the last arrival.
JobScript AllReduceJob() {
  JobScript job(2);
  for (int r = 0; r < 2; ++r) {
    const double skew = 20.0 * r;
    job.rank(r)
        .Group("world", {0, 1})
        .Collective("ar", CollectiveOp::kAllReduce, "world", {skew, skew + 4}, 20, {9 + skew, 49});
  }
  return job;
}

TEST(Rendezvous, BeginsWithTheLastMemberAndEndsOnAllAtOnce) {
  JobScript job = AllReduceJob();
  const Outcome outcome = Simulate(job);
  EXPECT_RAN(outcome, 0, "ar", 5, 45);  // 20 + 5 + 20
  EXPECT_RAN(outcome, 1, "ar", 25, 45);
  EXPECT_EQ(outcome.prediction.job.reports[1].start_skew, Us(20));
}

TEST(Rendezvous, AlignedStartTakesTheSkewAway) {
  JobScript job = AllReduceJob();
  const Outcome outcome = SimulateWithout(Ingredient::kStartSkew, job);
  EXPECT_RAN(outcome, 0, "ar", 5, 25);
  EXPECT_RAN(outcome, 1, "ar", 5, 25);
}

TEST(Rendezvous, WithoutRankSyncEachMemberTakesTheIntrinsicTimeAlone) {
  JobScript job = AllReduceJob();
  const Outcome outcome = SimulateWithout(Ingredient::kRankSync, job);
  EXPECT_RAN(outcome, 0, "ar", 5, 25);
  EXPECT_RAN(outcome, 1, "ar", 25, 45);
}

TEST(WhatIf, EditsDurationsAndDelaysRanks) {
  JobScript job = AllReduceJob();
  const Outcome outcome = Simulate(job, RoundLatencies(), nullptr, nullptr, [](Program& program) {
    const ItemSet communication = SelectItems(
        program, [](uint32_t, const Item& item) { return item.kind == ItemKind::kComm; });
    ChangeDurations(program, communication, {2, SimTime()});
    program.ranks[0].start += Us(50);
  });
  EXPECT_RAN(outcome, 0, "ar", 55, 95);  // delayed by 50; the all-reduce lasts twice 20
  EXPECT_RAN(outcome, 1, "ar", 25, 95);
}

TEST(Rendezvous, RootThatLeavesEarlyDoesNotWait) {
  JobScript job(2);
  job.rank(0)
      .Group("world", {0, 1})
      .Collective("bc", CollectiveOp::kBroadcast, "world", {0, 4}, 20, {9, 16});
  job.rank(1)
      .Group("world", {0, 1})
      .Collective("bc", CollectiveOp::kBroadcast, "world", {20, 24}, 20, {29, 49});
  const Outcome outcome = Simulate(job);
  EXPECT_RAN(outcome, 0, "bc", 5, 12);  // eager: its recorded 7 us
  EXPECT_RAN(outcome, 1, "bc", 25, 45);
}

// One rank starts later than recorded.
Outcome SimulateLater(JobScript& job, int32_t rank, double us) {
  return Simulate(job, RoundLatencies(), nullptr, nullptr, [&](Program& program) {
    program.ranks[static_cast<size_t>(rank)].start += Us(us);
  });
}

// Recorded: the root leaves at 16, before rank 1 comes at 29, which takes 20 from then on.
TEST(Rendezvous, AllWaitForARootThatComesLate) {
  JobScript job(2);
  job.rank(0)
      .Group("world", {0, 1})
      .Collective("bc", CollectiveOp::kBroadcast, "world", {0, 4}, 20, {9, 16});
  job.rank(1)
      .Group("world", {0, 1})
      .Collective("bc", CollectiveOp::kBroadcast, "world", {20, 24}, 20, {29, 49});
  const Outcome outcome = SimulateLater(job, 0, 1000);
  EXPECT_RAN(outcome, 0, "bc", 1005, 1012);
  EXPECT_RAN(outcome, 1, "bc", 25, 1025);
}

// Rank 0 is the root of a broadcast and comes at 39, the others at 9 and 19; they leave at 55, 59
// and 62. The root was not seen to leave without the others, so that it waits for them.
JobScript BroadcastJob() {
  JobScript job(3);
  const double calls[] = {30, 0, 10}, ends[] = {55, 59, 62};
  for (int r = 0; r < 3; ++r) {
    job.rank(r)
        .Group("world", {0, 1, 2})
        .Collective("bc", CollectiveOp::kBroadcast, "world", {calls[r], calls[r] + 4}, 20,
                    {calls[r] + 9, ends[r]}, 1000, 0);
  }
  return job;
}

TEST(Rendezvous, ABroadcastComesFromItsRoot) {
  JobScript job = BroadcastJob();
  const Outcome outcome = SimulateLater(job, 0, 100);
  EXPECT_RAN(outcome, 0, "bc", 135, 151);  // 55 - 39 after it comes
  EXPECT_RAN(outcome, 1, "bc", 5, 155);
  EXPECT_RAN(outcome, 2, "bc", 15, 158);
}

TEST(Rendezvous, ABroadcastComesFromNobodyElse) {
  JobScript job = BroadcastJob();
  const Outcome outcome = SimulateLater(job, 2, 100);
  EXPECT_RAN(outcome, 0, "bc", 35, 131);  // rank 2 comes at 115
  EXPECT_RAN(outcome, 1, "bc", 5, 55);
  EXPECT_RAN(outcome, 2, "bc", 115, 138);
}

TEST(PointToPoint, ReceiverWaitsForASenderThatWasBuffered) {
  JobScript job(2);
  job.rank(0).PointToPoint("send", NodeKind::kSend, 1, {0, 4}, 20, {9, 12});
  job.rank(1).PointToPoint("recv", NodeKind::kRecv, 0, {20, 24}, 20, {29, 49});
  const Outcome outcome = SimulateLater(job, 0, 1000);
  EXPECT_RAN(outcome, 0, "send", 1005, 1008);
  EXPECT_RAN(outcome, 1, "recv", 25, 1025);  // 20 after the sender's arrival
}

// Rank 1's kernel sends and receives; rank 0 receives with one kernel and sends with the next.
// Recorded: y takes 21 after both it and x are there, z 25 after it comes at 35, and so does x.
TEST(PointToPoint, OneKernelServesWhatThePartnerDoesInTwo) {
  JobScript job(2);
  for (int r = 0; r < 2; ++r) job.rank(r).Group("pp", {0, 1});
  job.rank(0)
      .Exchange("y", "pp", {}, {0, 8}, {0, 4}, 20, {9, 30})
      .Exchange("z", "pp", {0, 8}, {}, {5, 8}, 20, {35, 60});
  job.rank(1).Exchange("x", "pp", {8, 0}, {8, 0}, {0, 4}, 20, {9, 60});
  const Outcome outcome = Simulate(job);
  EXPECT_RAN(outcome, 0, "y", 5, 26);
  EXPECT_RAN(outcome, 0, "z", 27, 52);
  EXPECT_RAN(outcome, 1, "x", 5, 52);
  JobScript late(2);
  for (int r = 0; r < 2; ++r) late.rank(r).Group("pp", {0, 1});
  late.rank(0)
      .Exchange("y", "pp", {}, {0, 8}, {0, 4}, 20, {9, 30})
      .Exchange("z", "pp", {0, 8}, {}, {5, 8}, 20, {35, 60});
  late.rank(1).Exchange("x", "pp", {8, 0}, {8, 0}, {0, 4}, 20, {9, 60});
  const Outcome delayed = SimulateLater(late, 1, 100);
  EXPECT_RAN(delayed, 0, "y", 5, 126);
  EXPECT_RAN(delayed, 0, "z", 127, 152);
  EXPECT_RAN(delayed, 1, "x", 105, 152);
}

// Rank 1's recording began one collective later: the lone one is replayed as recorded, and said.
TEST(Rendezvous, CommunicationThatMeetsNobodyTakesItsTime) {
  JobScript job(2);
  for (int r = 0; r < 2; ++r) {
    job.rank(r).Group("world", {0, 1});
    if (r == 0) job.rank(r).Step(0, {-1, 99});
    job.rank(r).Step(1, {99, 700});
    for (int k = r; k < 6; ++k) {
      job.rank(r).Collective("c" + std::to_string(k), CollectiveOp::kAllReduce, "world",
                             {100.0 * k, 100.0 * k + 4}, 20, {100.0 * k + 9, 100.0 * k + 40 + k});
    }
  }
  const Outcome outcome = Simulate(job);
  EXPECT_RAN(outcome, 0, "c0", 6, 37);  // 1 after the mark, 5 of launch, 31 as recorded
  EXPECT_EQ(outcome.prediction.job.unmatched_communication, 1);
  const auto& iterations = outcome.prediction.ranks[0].iterations;
  ASSERT_EQ(iterations.size(), 2u);
  EXPECT_TRUE(iterations[0].partial);
  EXPECT_FALSE(iterations[1].partial);
}

// Rank 1's clock is 500 us behind, as five all-reduces show. Its broadcast seems to end before the
// root comes, but does not.
TEST(Rendezvous, ClocksAreAlignedBeforeMembersCountAsGone) {
  JobScript job(2);
  for (int r = 0; r < 2; ++r) {
    job.rank(r).Group("world", {0, 1});
    for (int k = 0; k < 6; ++k) {
      const double at = 100.0 * k - 500.0 * r;
      job.rank(r).Collective("c" + std::to_string(k),
                             k < 5 ? CollectiveOp::kAllReduce : CollectiveOp::kBroadcast, "world",
                             {at, at + 4}, 20, {at + 9, at + 40});
    }
  }
  const Outcome outcome = SimulateLater(job, 0, 1000);
  EXPECT_RAN(outcome, 0, "c5", 1505, 1536);  // 31 after the last arrival
  EXPECT_RAN(outcome, 1, "c5", 1437, 1536);  // after c4, which ends at 1436
}

TEST(PointToPoint, ReceiverWaitsForTheSender) {
  JobScript job(2);
  job.rank(0).PointToPoint("recv", NodeKind::kRecv, 1, {0, 4}, 20, {9, 49});
  job.rank(1).PointToPoint("send", NodeKind::kSend, 0, {20, 24}, 20, {29, 47});
  const Outcome outcome = Simulate(job);
  // The last arrives at 25; each takes what it took after the recorded last arrival at 29.
  EXPECT_RAN(outcome, 0, "recv", 5, 45);
  EXPECT_RAN(outcome, 1, "send", 25, 43);
}

TEST(PointToPoint, SmallSendIsBufferedAndLeaves) {
  JobScript job(2);
  job.rank(0).PointToPoint("send", NodeKind::kSend, 1, {0, 4}, 20, {9, 12});
  job.rank(1).PointToPoint("recv", NodeKind::kRecv, 0, {20, 24}, 20, {29, 49});
  const Outcome outcome = Simulate(job);
  EXPECT_RAN(outcome, 0, "send", 5, 8);
  EXPECT_RAN(outcome, 1, "recv", 25, 45);
}

// What a job keeps of its recording gives the same program as the recording itself.
TEST(CompileAgain, IsWhatCompilingIs) {
  JobScript job = AllReduceJob();
  const TraceStore store = job.Build();
  CompileOptions options = RoundLatencies();
  options.keep_reconstruction = true;
  const auto kept = Compile(store, options);
  ASSERT_TRUE(kept.ok()) << kept.status();
  for (const Semantics semantics : {Semantics::kFull, Semantics::kAlgorithm1}) {
    options.semantics = semantics;
    auto again = CompileAgain(store, *kept, options);
    auto anew = Compile(store, options);
    ASSERT_TRUE(again.ok() && anew.ok());
    const auto from_kept = Replay(store, *std::move(again), nullptr);
    const auto from_store = Replay(store, *std::move(anew), nullptr);
    ASSERT_TRUE(from_kept.ok() && from_store.ok());
    for (size_t r = 0; r < 2; ++r) {
      EXPECT_EQ(from_kept->schedule.ranks[r].end, from_store->schedule.ranks[r].end);
    }
  }
}

TEST(MissingRanks, AreRefusedOrReplayedAsRecorded) {
  JobScript job(1, 2);
  job.rank(0)
      .Group("world", {0, 1})
      .Collective("ar", CollectiveOp::kAllReduce, "world", {0, 4}, 20, {9, 49});
  const TraceStore store = job.Build();
  const auto refused = Predict(store, RoundLatencies(), nullptr);
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.status().message(), HasSubstr("rank 0 node"));
  EXPECT_THAT(refused.status().message(), HasSubstr("(missing ranks: 1)"));
  EXPECT_THAT(refused.status().message(), HasSubstr("--allow-missing-ranks"));

  JobScript again(1, 2);
  again.rank(0)
      .Group("world", {0, 1})
      .Collective("ar", CollectiveOp::kAllReduce, "world", {0, 4}, 20, {9, 49});
  CompileOptions options = RoundLatencies();
  options.allow_missing_ranks = true;
  const Outcome outcome = Simulate(again, options);
  EXPECT_RAN(outcome, 0, "ar", 5, 45);
  EXPECT_EQ(outcome.prediction.job.absent_rendezvous, 1);
}

// Ranks 0 and 1 of three are there. Recorded: they come at 9 and 29 and leave at 69, of the second
// all-reduce at 109 and 129 and leave at 149; so the absent rank made them wait 20 in the first.
Outcome SimulateAbsent(AbsentRanks absent, double delay) {
  JobScript job(2, 3);
  for (int r = 0; r < 2; ++r) {
    const double at = 20.0 * r;
    job.rank(r)
        .Group("world", {0, 1, 2})
        .Collective("a", CollectiveOp::kAllReduce, "world", {at, at + 4}, 20, {at + 9, 69})
        .Collective("b", CollectiveOp::kAllReduce, "world", {at + 100, at + 104}, 20,
                    {at + 109, 149});
  }
  CompileOptions options = RoundLatencies();
  options.allow_missing_ranks = true;
  options.absent = absent;
  return Simulate(job, options, nullptr, nullptr,
                  [&](Program& program) { program.ranks[0].start += Us(delay); });
}

TEST(MissingRanks, WhatMeetsNobodyOfThoseAtHandNeedsADeclaration) {
  JobScript job(2);
  job.rank(0).Collective("ar", CollectiveOp::kAllReduce, "", {0, 4}, 20, {9, 49});
  job.rank(1).Kernel("k", {0, 4}, 7, {9, 20});
  const TraceStore store = job.Build();
  const auto refused = Predict(store, RoundLatencies(), nullptr);
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.status().message(), HasSubstr("nothing names its group or partner"));
  EXPECT_THAT(refused.status().message(), HasSubstr("--process-groups FILE"));
}

TEST(MissingRanks, AlikeComeAsMuchAfterThePresentAsRecorded) {
  const Outcome outcome = SimulateAbsent(AbsentRanks::kAlike, 50);
  EXPECT_RAN(outcome, 0, "a", 55, 95);  // 40 after the last present member
  EXPECT_RAN(outcome, 1, "a", 25, 95);
  EXPECT_RAN(outcome, 0, "b", 155, 175);
}

TEST(MissingRanks, NeverLastTakeTheShortestOfTheirKind) {
  const Outcome outcome = SimulateAbsent(AbsentRanks::kNeverLast, 0);
  EXPECT_RAN(outcome, 0, "a", 5, 45);  // 20 after rank 1
  EXPECT_RAN(outcome, 1, "a", 25, 45);
  EXPECT_RAN(outcome, 1, "b", 125, 145);
}

TEST(MissingRanks, AsRecordedMeetNobody) {
  const Outcome outcome = SimulateAbsent(AbsentRanks::kAsRecorded, 50);
  EXPECT_RAN(outcome, 0, "a", 55, 115);
  EXPECT_RAN(outcome, 1, "a", 25, 65);
}

TEST(Times, MixedWithSymbolicRanksAreRefused) {
  JobScript job(2);
  for (int r = 0; r < 2; ++r) job.rank(r).Kernel("k", {0, 4}, 7, {9, 19});
  std::vector<std::pair<RankTrace, std::unique_ptr<StringPool>>> built;
  for (int r = 0; r < 2; ++r) {
    job.rank(r).builder().info().has_times = r == 0;
    auto result = job.rank(r).builder().Build({});
    ASSERT_TRUE(result.ok());
    built.emplace_back(std::move(result->trace), std::move(result->strings));
  }
  const auto store = TraceStore::Assemble(std::move(built), {});
  ASSERT_TRUE(store.ok());
  const auto prediction = Predict(*store, {}, nullptr);
  ASSERT_FALSE(prediction.ok());
  EXPECT_THAT(prediction.status().message(), HasSubstr("add the profile of rank 1"));
}

// Two groups of the same two ranks, entered in opposite order on one stream.
TEST(Deadlock, NamesRanksNodesAndWhatTheyWaitFor) {
  JobScript job(2);
  for (int r = 0; r < 2; ++r) {
    const std::string first = r == 0 ? "a" : "b";
    const std::string second = r == 0 ? "b" : "a";
    job.rank(r)
        .Group("a", {0, 1})
        .Group("b", {0, 1})
        .Collective("ar " + first, CollectiveOp::kAllReduce, first, {0, 4}, 20, {9, 19})
        .Collective("ar " + second, CollectiveOp::kAllReduce, second, {5, 9}, 20, {29, 39});
  }
  const TraceStore store = job.Build();
  const auto compiled = Compile(store, RoundLatencies());
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  for (const auto& run : {RunStraight, RunDataflow}) {
    const auto schedule = run(store, compiled->program, nullptr);
    ASSERT_FALSE(schedule.ok());
    const std::string message(schedule.status().message());
    EXPECT_THAT(message, HasSubstr("script: deadlock: "));
    EXPECT_THAT(message, Not(HasSubstr("record")));
    EXPECT_TRUE(IsDeadlock(schedule.status()));
    EXPECT_THAT(message, HasSubstr("rank 0 node"));
    EXPECT_THAT(message, HasSubstr("rank 1 node"));
    EXPECT_THAT(message, HasSubstr("(ar a)"));
    EXPECT_THAT(message, HasSubstr("(ar b)"));
    EXPECT_THAT(message, HasSubstr("1 of 2 members arrived; rank 1 has not reached its node"));
  }
}

}  // namespace
}  // namespace foretrace
