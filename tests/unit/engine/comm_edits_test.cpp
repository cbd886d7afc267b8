#include "simulator/engine/comm_edits.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "simulator/engine/move_streams.h"
#include "tests/unit/engine/engine_fixture.h"

namespace foretrace {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Two gradients, each reduced beside what follows, and an optimizer that waits for both. An event
// takes 2 us, a launch 5.
//   CPU        g1 [0, 4)  c1 [10, 14)  g2 [20, 24)  c2 [30, 34)  opt [40, 44)
//   stream 7   g1 [5, 15)   g2 [25, 75)                                  opt [109, 119)
//   stream 20  c1 [17, 37)                        c2 [77, 107)
JobScript Reductions(int64_t first_bytes = 1000, int64_t second_bytes = 2000) {
  JobScript job(2);
  for (size_t r = 0; r < 2; ++r) {
    job.rank(r)
        .Group("world", {0, 1})
        .Kernel("g1", {0, 4}, 7, {5, 15})
        .Collective("c1", CollectiveOp::kAllReduce, "world", {10, 14}, 20, {17, 37}, first_bytes)
        .Kernel("g2", {20, 24}, 7, {25, 75})
        .Collective("c2", CollectiveOp::kAllReduce, "world", {30, 34}, 20, {77, 107}, second_bytes)
        .Kernel("opt", {40, 44}, 7, {109, 119})
        .Depends("opt", "c1")
        .Depends("opt", "c2");
  }
  return job;
}

ItemSet Collectives(const Program& program) {
  return SelectItems(program,
                     [](uint32_t, const Item& item) { return item.kind == ItemKind::kComm; });
}

// 10 us, and 1 us for each member and kilobyte.
class TenAndOneEach : public NetworkModel {
 public:
  std::string_view name() const override { return "test"; }
  absl::StatusOr<Estimate> IsolatedDuration(const TransferSpec& spec) override {
    asked.push_back(spec.members);
    return Estimate{Us(10 + static_cast<double>(spec.members.size()) *
                                static_cast<double>(spec.bytes.count()) / 1000),
                    EstimateSource::kAnalytic, false};
  }
  bool contends() const override { return false; }
  absl::StatusOr<TransferHandle> Start(const TransferSpec&, SimTime) override { return 0; }
  absl::StatusOr<std::optional<Completion>> Next(SimTime) override { return std::nullopt; }

  std::vector<std::vector<int32_t>> asked;
};

// Compiles, edits and replays; `edit` has what Simulate's has not.
template <typename Edit>
Outcome Edited(JobScript script, const Edit& edit) {
  TraceStore store = script.Build();
  auto job = Compile(store, RoundLatencies());
  FORETRACE_CHECK(job.ok());
  edit(store, *job);
  auto prediction = Replay(store, *std::move(job), nullptr);
  if (!prediction.ok()) ADD_FAILURE() << prediction.status();
  FORETRACE_CHECK(prediction.ok());
  return {std::move(store), *std::move(prediction)};
}

TEST(CommEdits, AsRecordedWithoutEdits) {
  const Outcome outcome = Edited(Reductions(), [](const TraceStore&, CompiledJob&) {});
  EXPECT_RAN(outcome, 0, "c1", 17, 37);
  EXPECT_RAN(outcome, 1, "c2", 77, 107);
  EXPECT_RAN(outcome, 1, "opt", 109, 119);
}

TEST(CommEdits, MergedBucketsTakeWhatTheLineThroughRecordedTimesSays) {
  // 20 us for 1000 bytes and 30 for 2000: 10 us and 10 for each 1000, so 40 for both in one. The
  // launch of c1 is saved: 4 us on the CPU, by which g2 begins earlier.
  const Outcome outcome = Edited(Reductions(), [](const TraceStore& store, CompiledJob& job) {
    const auto gone =
        MergeBuckets(store, job, Collectives(job.program), Bytes(3000), nullptr, job.program);
    ASSERT_TRUE(gone.ok()) << gone.status();
    EXPECT_EQ(*gone, 1u);
  });
  for (const uint32_t rank : {0u, 1u}) {
    EXPECT_RAN(outcome, rank, "g2", 21, 71);
    EXPECT_RAN(outcome, rank, "c2", 73, 113);
    EXPECT_RAN(outcome, rank, "opt", 115, 125);
  }
}

TEST(CommEdits, BucketsThatHoldEnoughStay) {
  Edited(Reductions(), [](const TraceStore& store, CompiledJob& job) {
    const auto gone =
        MergeBuckets(store, job, Collectives(job.program), Bytes(900), nullptr, job.program);
    ASSERT_TRUE(gone.ok()) << gone.status();
    EXPECT_EQ(*gone, 0u);
  });
}

TEST(CommEdits, OneSizeNeedsANetwork) {
  const auto merge = [](NetworkModel* network) {
    return [network](const TraceStore& store, CompiledJob& job) {
      const auto gone =
          MergeBuckets(store, job, Collectives(job.program), Bytes(2000), network, job.program);
      EXPECT_EQ(gone.ok(), network != nullptr) << gone.status();
      if (network == nullptr) {
        EXPECT_THAT(gone.status().message(), HasSubstr("have 1000 bytes, which does not say"));
      }
    };
  };
  Edited(Reductions(1000, 1000), merge(nullptr));
  // 12 us for 1000 bytes of two members, 14 for 2000: 30 us become 35.
  TenAndOneEach network;
  EXPECT_RAN(Edited(Reductions(1000, 1000), merge(&network)), 0, "c2", 73, 108);
}

// c2 of 2000 bytes becomes two of 1000, 20 us each. Half of g2a and g2b, the work since c1, is done
// with g2a: the first piece is launched behind it, by 4 us more in [25, 29), and waits for g2a
// alone.
TEST(CommEdits, ABucketIsSplitWhereItsGradientsGetReady) {
  JobScript job(2);
  for (size_t r = 0; r < 2; ++r) {
    job.rank(r)
        .Group("world", {0, 1})
        .Kernel("g1", {0, 4}, 7, {5, 15})
        .Collective("c1", CollectiveOp::kAllReduce, "world", {10, 14}, 20, {17, 37}, 1000)
        .Kernel("g2a", {20, 24}, 7, {25, 75})
        .Kernel("g2b", {30, 34}, 7, {76, 126})
        .Collective("c2", CollectiveOp::kAllReduce, "world", {40, 44}, 20, {128, 158}, 2000)
        .Kernel("opt", {50, 54}, 7, {160, 170})
        .Depends("opt", "c2");
  }
  const Outcome outcome =
      Edited(std::move(job), [](const TraceStore& store, CompiledJob& compiled) {
        const auto more = SplitBuckets(store, compiled, Collectives(compiled.program), Bytes(1000),
                                       nullptr, compiled.program);
        ASSERT_TRUE(more.ok()) << more.status();
        EXPECT_EQ(*more, 1u);
        EXPECT_EQ(compiled.program.rendezvous.size(), compiled.communicators.rendezvous.size());
      });
  for (const uint32_t rank : {0u, 1u}) {
    EXPECT_RAN(outcome, rank, "launch g2b", 34, 38);
    EXPECT_RAN(outcome, rank, "g2b", 76, 126);
    EXPECT_RAN(outcome, rank, "opt", 150, 160);  // the last piece [128, 148)
    // The piece: behind g2a, which ends at 75, and the event.
    const RankProgram& program = outcome.prediction.job.program.ranks[rank];
    std::vector<std::pair<double, double>> reduced;
    for (uint32_t i = 0; i < program.items.size(); ++i) {
      if (program.items[i].kind != ItemKind::kComm) continue;
      const RankSchedule& times = outcome.prediction.schedule.ranks[rank];
      reduced.emplace_back(times.start[i].us(), times.end[i].us());
    }
    EXPECT_THAT(reduced,
                ElementsAre(testing::Pair(17, 37), testing::Pair(77, 97), testing::Pair(128, 148)));
  }
}

TEST(CommEdits, BucketsThatHoldLessThanTwiceAsMuchAreNotSplit) {
  Edited(Reductions(), [](const TraceStore& store, CompiledJob& job) {
    const auto more =
        SplitBuckets(store, job, Collectives(job.program), Bytes(1001), nullptr, job.program);
    ASSERT_TRUE(more.ok()) << more.status();
    EXPECT_EQ(*more, 0u);
  });
}

TEST(CommEdits, PiecesAreBounded) {
  Edited(Reductions(1000, 1 << 30), [](const TraceStore& store, CompiledJob& job) {
    const auto more =
        SplitBuckets(store, job, Collectives(job.program), Bytes(1000), nullptr, job.program);
    EXPECT_THAT(more.status().message(), HasSubstr("would become 1073741 (at most 4096)"));
  });
}

TEST(CommEdits, WhatWaitsTooEarlyForABucketIsRefused) {
  JobScript job(2);
  for (size_t r = 0; r < 2; ++r) {
    job.rank(r)
        .Group("world", {0, 1})
        .Kernel("g1", {0, 4}, 7, {5, 15})
        .Collective("c1", CollectiveOp::kAllReduce, "world", {10, 14}, 20, {17, 37}, 1000)
        .Call("sync", RuntimeCall::kStreamSynchronize, {20, 43})
        .Kernel("g2", {50, 54}, 7, {55, 105})
        .Collective("c2", CollectiveOp::kAllReduce, "world", {60, 64}, 20, {107, 137}, 2000);
    job.rank(r).Names("sync", -1, 20);
  }
  Edited(std::move(job), [](const TraceStore& store, CompiledJob& compiled) {
    Program program = compiled.program;
    const auto gone =
        MergeBuckets(store, compiled, Collectives(program), Bytes(3000), nullptr, program);
    EXPECT_THAT(gone.status().message(), HasSubstr("(sync) waits for a bucket before the last"));
  });
}

TEST(CommEdits, GroupsOfAnotherSizeTakeTheRatioOfTheNetworksTimes) {
  TenAndOneEach network;
  const Outcome outcome = Edited(Reductions(), [&](const TraceStore& store, CompiledJob& job) {
    const auto changed =
        ChangeGroupSize(store, job, Collectives(job.program), 4, network, job.program);
    ASSERT_TRUE(changed.ok()) << changed.status();
    EXPECT_EQ(*changed, 2u);
  });
  EXPECT_THAT(network.asked.back(), ElementsAre(0, 1, 2, 3));
  // 1000 bytes: 12 us for two members, 14 for four. 2000 bytes: 14 and 18.
  EXPECT_RAN(outcome, 0, "c1", 17, 17 + 20 * 14.0 / 12);
  EXPECT_RAN(outcome, 0, "c2", 77, 77 + 30 * 18.0 / 14);
}

TEST(CommEdits, AllToAllsDependOnTheSizeOfTheGroup) {
  JobScript job(2);
  for (size_t r = 0; r < 2; ++r) {
    job.rank(r)
        .Group("world", {0, 1})
        .Collective("a2a", CollectiveOp::kAllToAll, "world", {0, 4}, 20, {9, 29});
  }
  Edited(std::move(job), [](const TraceStore& store, CompiledJob& compiled) {
    TenAndOneEach network;
    const auto changed = ChangeGroupSize(store, compiled, Collectives(compiled.program), 4, network,
                                         compiled.program);
    EXPECT_THAT(changed.status().message(), HasSubstr("what all_to_all of communicator world"));
  });
}

// Three kernels of 10 us on stream 7, launched at 0, 10 and 20, and one on stream 8 that waits for
// the second.
JobScript Chain() {
  JobScript job(1);
  job.rank(0)
      .Kernel("a", {0, 4}, 7, {5, 15})
      .Kernel("b", {10, 14}, 7, {16, 26})
      .Kernel("y", {15, 19}, 8, {28, 48})
      .Kernel("c", {20, 24}, 7, {27, 37})
      .Depends("y", "b");
  return job;
}

Outcome Moved(std::string_view name, int64_t stream, double longer_us = 0) {
  return Edited(Chain(), [&](const TraceStore& store, CompiledJob& job) {
    const ItemSet items = SelectItems(job.program, [&](uint32_t r, const Item& item) {
      return store.name(store.ranks()[r], item.node) == name;
    });
    std::vector<LaneIndex> streams(1);
    const auto lanes = store.ranks()[0].lanes();
    for (uint32_t l = 0; l < lanes.size(); ++l) {
      if (lanes[l].kind == Lane::Kind::kStream && lanes[l].id == stream) streams[0] = LaneIndex(l);
    }
    EXPECT_EQ(MoveToStream(job.program, items, streams), 1u);
    const ItemSet moved = SelectItems(job.program, [&](uint32_t r, const Item& item) {
      return store.name(store.ranks()[r], item.node) == name;
    });
    ChangeDurations(job.program, moved, {1, Us(longer_us)});
  });
}

TEST(MoveToStream, RunsBesideWhatFollows) {
  for (const int64_t stream : {8, 99}) {  // one of the recording, and one that it lacks
    const Outcome outcome = Moved("b", stream, 50);
    EXPECT_RAN(outcome, 0, "b", 16, 76);  // still after a, and a gap of 1
    EXPECT_RAN(outcome, 0, "y", 78, 98);
    EXPECT_RAN(outcome, 0, "c", 25, 35);  // its launch at 20 and 5: a alone is before it
  }
}

TEST(MoveToStream, WhatWaitedForLaterWorkOfItsStreamStillWaitsForIt) {
  const Outcome outcome = Moved("a", 99, 100);
  EXPECT_RAN(outcome, 0, "a", 5, 115);
  EXPECT_RAN(outcome, 0, "b", 15, 25);  // its launch at 10 and 5
  EXPECT_RAN(outcome, 0, "y", 117, 137);
}

}  // namespace
}  // namespace foretrace
