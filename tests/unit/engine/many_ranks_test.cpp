// Ranks that meet: collectives, sends and receives, start skew, absent ranks, deadlock.
#include <gmock/gmock.h>

#include "simulator/engine/executor.h"
#include "tests/unit/engine/engine_fixture.h"

namespace foretrace {
namespace {

using testing::HasSubstr;

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
  CompileOptions options = RoundLatencies();
  options.aligned_start = true;
  const Outcome outcome = Simulate(job, options);
  EXPECT_RAN(outcome, 0, "ar", 5, 25);
  EXPECT_RAN(outcome, 1, "ar", 5, 25);
}

TEST(Rendezvous, WithoutRankSyncEachMemberTakesTheIntrinsicTimeAlone) {
  JobScript job = AllReduceJob();
  CompileOptions options = RoundLatencies();
  options.rank_sync = false;
  const Outcome outcome = Simulate(job, options);
  EXPECT_RAN(outcome, 0, "ar", 5, 25);
  EXPECT_RAN(outcome, 1, "ar", 25, 45);
}

class Delay : public DurationEdit {
 public:
  DurationChange Change(const TraceStore&, const RankTrace&, NodeIndex,
                        std::string_view communicator) const override {
    return {communicator == "world" ? 2.0 : 1.0, SimTime()};
  }
  SimTime StartDelay(int32_t rank) const override { return rank == 0 ? Us(50) : SimTime(); }
};

TEST(WhatIf, EditsDurationsAndDelaysRanks) {
  JobScript job = AllReduceJob();
  CompileOptions options = RoundLatencies();
  const Delay edit;
  options.edit = &edit;
  const Outcome outcome = Simulate(job, options);
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
  EXPECT_EQ(outcome.prediction.job.recorded_collectives, 1);
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
  EXPECT_THAT(prediction.status().message(), HasSubstr("simulate them apart"));
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
    EXPECT_THAT(message, HasSubstr("deadlock"));
    EXPECT_THAT(message, HasSubstr("rank 0 node"));
    EXPECT_THAT(message, HasSubstr("rank 1 node"));
    EXPECT_THAT(message, HasSubstr("(ar a)"));
    EXPECT_THAT(message, HasSubstr("(ar b)"));
    EXPECT_THAT(message, HasSubstr("1 of 2 members arrived; rank 1 has not reached its node"));
  }
}

}  // namespace
}  // namespace foretrace
