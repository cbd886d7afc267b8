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
  const ArrivalSpread::Later later = spread.Between(8, 1024);
  const double expected = 10 * (Harmonic(1024) - Harmonic(8));
  EXPECT_NEAR(later.expected.us(), expected, 0.08 * expected);
  EXPECT_GT(later.late, later.expected);
  EXPECT_EQ(spread.Between(8, 8).expected, SimTime());
}

TEST(ArrivalSpread, SeenIsTheMeanOfTheLargestDrawn) {
  ArrivalSpread spread;
  spread.Add(std::vector<SimTime>{Us(20), Us(30)});
  // -5 and 5: the largest of two is 5 in three of four draws, of four in 15 of 16.
  EXPECT_EQ(spread.Between(2, 4).seen, Us(4.375 - 2.5));
  EXPECT_LT(spread.Between(2, 1 << 20).seen, Us(2.5001));
}

TEST(ArrivalSpread, OneRankTellsByHowLongItWaits) {
  ArrivalSpread spread;
  // The last of two exponential arrivals comes half a scale after their mean.
  spread.AddWait(Us(5), 2);
  EXPECT_NEAR(spread.Between(2, 16).expected.us(), 10 * (Harmonic(16) - 1.5), 1e-6);
  EXPECT_EQ(ArrivalSpread().Between(2, 16).late, SimTime());
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
  auto groups = GrowGroups(store, *job, sizes, *schedule, last, grown.network, job->program);
  EXPECT_TRUE(groups.ok()) << groups.status();
  if (groups.ok()) grown.groups = *std::move(groups);
  for (const Item& item : job->program.ranks[0].items) {
    if (item.kind == ItemKind::kComm) grown.duration = item.duration;
  }
  return grown;
}

TEST(GrowGroups, TransfersFollowTheNetworkAndTheLastMemberComesLater) {
  // 24 us after the last; 14 us for 4 members instead of 12 for 2; the last of 4 at (-5, 5) comes
  // 1.875 us after the last of 2.
  const Grown grown = Grow(Exchange(CollectiveOp::kAllReduce), 4, LastArrival::kSeen);
  EXPECT_NEAR(grown.duration.us(), 24 * 14.0 / 12 + 1.875, 1e-5);
  ASSERT_EQ(grown.groups.size(), 1u);
  EXPECT_EQ(grown.groups[0].to, 4);
  EXPECT_EQ(grown.groups[0].transfers_before, Us(24));
}

TEST(GrowGroups, WhatARankSendsStaysInAllToAllsAndTheRootsBufferGrows) {
  EXPECT_THAT(Grow(Exchange(CollectiveOp::kAllToAll), 8, LastArrival::kSeen).network.asked,
              ElementsAre(std::pair(2, 1000), std::pair(8, 1000)));
  EXPECT_THAT(Grow(Exchange(CollectiveOp::kGather), 8, LastArrival::kSeen).network.asked,
              ElementsAre(std::pair(2, 1000), std::pair(8, 4000)));
}

TEST(GrowGroups, SameSizeChangesNothing) {
  const Grown grown = Grow(Exchange(CollectiveOp::kAllReduce), 2, LastArrival::kLate);
  EXPECT_EQ(grown.duration, Us(24));
  EXPECT_TRUE(grown.groups.empty());
}

}  // namespace
}  // namespace foretrace
