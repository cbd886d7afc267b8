// Whether senders wait for their receivers, and what follows where nothing shows it.
#include "simulator/engine/wait_readings.h"
#include "tests/unit/engine/engine_fixture.h"

namespace foretrace {
namespace {

// A sender that came first, by less than clocks can be wrong: had it not waited, all of its time
// would be its own.
TEST(PointToPoint, ASendThatMayNotHaveWaitedTookAllOfItsTime) {
  JobScript job(2);
  job.rank(0).PointToPoint("send", NodeKind::kSend, 1, {0, 4}, 20, {9, 109});
  job.rank(1).PointToPoint("recv", NodeKind::kRecv, 0, {10, 14}, 20, {19, 109});
  const TraceStore store = job.Build();
  const auto compiled = Compile(store, RoundLatencies());
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  ASSERT_EQ(compiled->assumed.size(), 1u);
  const RendezvousProgram::Member sender = compiled->program.rendezvous[0].members[0];
  EXPECT_EQ(compiled->program.ranks[0].items[sender.item].duration, Us(90));
  Program read = compiled->program;
  ReadAsBuffered(*compiled, read);
  EXPECT_EQ(read.ranks[0].items[sender.item].duration, Us(100));
}

// The receiver is always there first, so that nothing shows whether the sender would wait for it.
TEST(PointToPoint, ASendThatNothingShowsMayNotWait) {
  JobScript job(2);
  job.rank(0).PointToPoint("send", NodeKind::kSend, 1, {20, 24}, 20, {29, 47});
  job.rank(1).PointToPoint("recv", NodeKind::kRecv, 0, {0, 4}, 20, {9, 47});
  const TraceStore store = job.Build();
  const auto compiled = Compile(store, RoundLatencies());
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  ASSERT_EQ(compiled->assumed.size(), 1u);
  ASSERT_EQ(compiled->assumed[0].awaits.size(), 1u);
  EXPECT_EQ(compiled->program.rendezvous[0].awaiting, Awaiting::kAll);
  Program read = compiled->program;
  ReadAsBuffered(*compiled, read);
  ASSERT_EQ(read.rendezvous[0].awaits.size(), 1u);
  EXPECT_EQ(read.rendezvous[0].awaits[0].member, 1u);  // who receives still waits
  EXPECT_EQ(read.rendezvous[0].awaits[0].source, 0u);
}

// Reductions of as many bytes to rank 1, which take 60 us at one place of the program and 500 us at
// another. Rank 0 takes as long however late rank 1 comes, so that it does not wait; but what it
// takes after rank 1 has come varies less over both places than what it takes in all.
TEST(Rendezvous, WhatTakesLongerElsewhereStillDoesNotWait) {
  JobScript job(2);
  for (int k = 0; k < 8; ++k) {
    const bool longer = k % 2 == 1;
    const double at = 1000.0 * k, us = longer ? 500 : 60;
    const double late = longer ? 300 + 20 * k : 0;
    const std::string name = "reduce" + std::to_string(k);
    for (int r = 0; r < 2; ++r) {
      job.rank(r).Group("world", {0, 1}).Op(longer ? "longer" : "shorter", {at, at + 20});
      const double begin = at + 9 + (r == 1 ? late : 0);
      const double end = r == 0 ? at + 9 + us : begin + us;
      job.rank(r).Collective(name, CollectiveOp::kReduce, "world", {at + 1, at + 5}, 20,
                             {begin, end}, 1000, 1);
    }
  }
  const TraceStore store = job.Build();
  const auto compiled = Compile(store, RoundLatencies());
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  for (const RendezvousProgram& rendezvous : compiled->program.rendezvous) {
    ASSERT_EQ(rendezvous.awaits.size(), 1u);
    EXPECT_EQ(rendezvous.awaits[0].member, 1u);  // the root alone waits
  }
}

}  // namespace
}  // namespace foretrace
