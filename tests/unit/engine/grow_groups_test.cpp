#include "simulator/engine/grow_groups.h"

#include <gmock/gmock.h>

#include <random>

#include "simulator/engine/arrival_spread.h"
#include "simulator/engine/executor.h"
#include "tests/unit/engine/engine_fixture.h"

namespace foretrace {
namespace {

using testing::ElementsAre;

SimTime Us(double us) { return SimTime::FromUs(us); }

double Harmonic(int n) {
  double sum = 0;
  for (int k = 1; k <= n; ++k) sum += 1.0 / k;
  return sum;
}

TEST(ArrivalSpread, ExponentialArrivalsGrowWithTheHarmonicNumber) {
  std::mt19937_64 draw(7);
  std::exponential_distribution<double> exponential(0.1);
  ArrivalSpread spread;
  for (int rendezvous = 0; rendezvous < 2000; ++rendezvous) {
    std::vector<SimTime> arrivals;
    for (int r = 0; r < 8; ++r) arrivals.push_back(Us(exponential(draw)));
    spread.Add(arrivals);
  }
  // The last of 1016 more comes 10 (H_1016 - 1) after the mean; that of eight, 15 after it, is
  // never later.
  const ArrivalSpread::Later later = spread.After(Us(15), 1016);
  const double expected = 10 * (Harmonic(1016) - 1) - 15;
  EXPECT_NEAR(later.expected.us(), expected, 0.08 * expected);
  EXPECT_GT(later.late, later.expected);
  EXPECT_EQ(spread.After(Us(15), 0).expected, SimTime());
  // Later than nearly all that would come.
  EXPECT_LT(spread.After(Us(150), 8).expected, Us(0.01));
}

TEST(ArrivalSpread, OneRankTellsByHowLongItWaits) {
  ArrivalSpread spread;
  // The last of two exponential arrivals comes half a scale after their mean.
  spread.AddWait(Us(5), 2);
  EXPECT_NEAR(spread.After(Us(-10), 16).expected.us(), 10 * Harmonic(16), 1e-6);
  EXPECT_EQ(ArrivalSpread().After(Us(0), 16).late, SimTime());
}

// 10 us, and 1 us for each member.
class TenAndOneEach : public NetworkModel {
 public:
  std::string_view name() const override { return "test"; }
  absl::StatusOr<Estimate> IsolatedDuration(const TransferSpec& spec) override {
    asked.push_back({static_cast<int64_t>(spec.members.size()), spec.bytes.count()});
    return Estimate{Us(10 + static_cast<double>(spec.members.size())), EstimateSource::kAnalytic,
                    false};
  }
  bool contends() const override { return false; }
  absl::StatusOr<TransferHandle> Start(const TransferSpec&, SimTime) override { return 0; }
  absl::StatusOr<std::optional<Completion>> Next(SimTime) override { return std::nullopt; }

  std::vector<std::pair<int64_t, int64_t>> asked;
};

// Rank 1 comes 10 us after rank 0; 24 us follow.
JobScript Exchange(CollectiveOp op) {
  JobScript job(2);
  for (const size_t r : {0u, 1u}) {
    const double late = r == 0 ? 0 : 10;
    job.rank(r)
        .Group("world", {0, 1})
        .Kernel("before", {0, 4}, 20, {5, 15 + late})
        .Collective("c", op, "world", {10, 14}, 20, {17 + late, 51}, 1000)
        .Kernel("after", {20, 24}, 20, {53, 60});
  }
  return job;
}

struct Grown {
  SimTime duration;  // of the collective, on rank 0
  EstimateSource source = EstimateSource::kMissing;
  std::vector<GroupGrowth> groups;
  TenAndOneEach network;
};

Grown Grow(JobScript script, int32_t size, LastArrival last) {
  Grown grown;
  const TraceStore store = script.Build();
  auto job = Compile(store, RoundLatencies());
  FORETRACE_CHECK(job.ok());
  const auto schedule = Execute(store, job->program, nullptr);
  FORETRACE_CHECK(schedule.ok());
  const std::vector<int32_t> sizes(job->communicators.communicators.size(), size);
  auto groups = GrowGroups(store, *job, sizes, *schedule, ArrivalsOf::kGroup, last, &grown.network,
                           job->program);
  EXPECT_TRUE(groups.ok()) << groups.status();
  if (groups.ok()) grown.groups = *std::move(groups);
  for (const Item& item : job->program.ranks[0].items) {
    if (item.kind != ItemKind::kComm) continue;
    grown.duration = item.duration;
    grown.source = item.source;
  }
  return grown;
}

TEST(GrowGroups, TransfersFollowTheNetworkAndTheLastMemberComesLater) {
  // 24 us after the last; 14 us for 4 members instead of 12 for 2; nobody comes after the latest
  // seen.
  const Grown grown = Grow(Exchange(CollectiveOp::kAllReduce), 4, LastArrival::kAtHand);
  EXPECT_NEAR(grown.duration.us(), 24 * 14.0 / 12, 1e-5);
  EXPECT_EQ(grown.source, EstimateSource::kAnalytic);  // as the network's times are
  ASSERT_EQ(grown.groups.size(), 1u);
  EXPECT_EQ(grown.groups[0].to, 4);
  EXPECT_EQ(grown.groups[0].transfers_before, Us(24));
  // From 2 to 4 and to 1024 ranks the last comes later and later.
  const Grown few = Grow(Exchange(CollectiveOp::kAllReduce), 4, LastArrival::kExpected);
  const Grown many = Grow(Exchange(CollectiveOp::kAllReduce), 1024, LastArrival::kExpected);
  EXPECT_GT(few.groups[0].later, SimTime());
  EXPECT_GT(many.groups[0].later, few.groups[0].later);
}

TEST(GrowGroups, WhatARankSendsStaysInAllToAllsAndTheRootsBufferGrows) {
  EXPECT_THAT(Grow(Exchange(CollectiveOp::kAllToAll), 8, LastArrival::kAtHand).network.asked,
              ElementsAre(std::pair(2, 1000), std::pair(8, 1000)));
  EXPECT_THAT(Grow(Exchange(CollectiveOp::kGather), 8, LastArrival::kAtHand).network.asked,
              ElementsAre(std::pair(2, 1000), std::pair(8, 4000)));
}

TEST(GrowGroups, GroupsOfLaterStagesComeAfterTheGrownOnesOfEarlier) {
  // 8 ranks, tensor 2, data 2, two stages: {0, 2}, {1, 3} and {4, 6}, {5, 7}; of 16, {8, 10, 12,
  // 14}.
  EXPECT_THAT(GrownGroup({0, 2}, 4), ElementsAre(0, 2, 4, 6));
  EXPECT_THAT(GrownGroup({1, 3}, 4), ElementsAre(1, 3, 5, 7));
  EXPECT_THAT(GrownGroup({4, 6}, 4), ElementsAre(8, 10, 12, 14));
  EXPECT_THAT(GrownGroup({5, 7}, 4), ElementsAre(9, 11, 13, 15));
  EXPECT_THAT(GrownGroup({5, 7}, 2), ElementsAre(5, 7));
  // Stages within data parallelism; and no layout in blocks.
  EXPECT_THAT(GrownGroup({3, 7}, 4), ElementsAre(3, 7, 11, 15));
  EXPECT_THAT(GrownGroup({2, 3, 6}, 4), ElementsAre(2, 3, 6, 7));
}

TEST(GrowGroups, SameSizeChangesNothing) {
  const Grown grown = Grow(Exchange(CollectiveOp::kAllReduce), 2, LastArrival::kLate);
  EXPECT_EQ(grown.duration, Us(24));
  EXPECT_EQ(grown.source, EstimateSource::kRecorded);
  EXPECT_TRUE(grown.groups.empty());
}

// One rank of two, that comes to it 16 us after its first call.
Grown GrowAlone(LastArrival last) {
  JobScript script(1);
  script.rank(0)
      .Group("world", {0, 1})
      .Kernel("before", {0, 4}, 20, {5, 15})
      .Collective("c", CollectiveOp::kAllReduce, "world", {10, 14}, 20, {17, 51}, 1000);
  Grown grown;
  const TraceStore store = script.Build();
  CompileOptions options = RoundLatencies();
  options.allow_missing_ranks = true;
  options.absent = AbsentRanks::kNeverLast;
  auto job = Compile(store, options);
  FORETRACE_CHECK(job.ok());
  const auto schedule = Execute(store, job->program, nullptr);
  FORETRACE_CHECK(schedule.ok());
  auto groups = GrowGroups(store, *job, {2}, *schedule, ArrivalsOf::kPresent, last, &grown.network,
                           job->program);
  EXPECT_TRUE(groups.ok()) << groups.status();
  if (groups.ok()) grown.groups = *std::move(groups);
  return grown;
}

TEST(GrowGroups, OneRankAloneSupposesASlowerOneAtTheUpperEnd) {
  const Grown expected = GrowAlone(LastArrival::kExpected), late = GrowAlone(LastArrival::kLate);
  ASSERT_EQ(expected.groups.size(), 1u);
  ASSERT_EQ(late.groups.size(), 1u);
  EXPECT_TRUE(late.groups[0].supposed);
  EXPECT_EQ(expected.groups[0].later, SimTime());
  EXPECT_NEAR(late.groups[0].later.us(), kSlowestRank * 16, 1e-5);
  EXPECT_FALSE(Grow(Exchange(CollectiveOp::kAllReduce), 4, LastArrival::kLate).groups[0].supposed);
}

}  // namespace
}  // namespace foretrace
