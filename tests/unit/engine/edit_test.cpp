#include "simulator/engine/edit.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "simulator/engine/restructure.h"

#include "tests/unit/engine/engine_fixture.h"

namespace foretrace {
namespace {

// A kernel of 100 us, a synchronise, and another kernel.
//   CPU     launch x [0, 4)   synchronise [10, 111)   launch y [121, 125)
//   stream  x [5, 105)                                          y [126, 136)
// Within aten::mm [6, 130): 4 us of overhead before the synchronise, 10 after it.
JobScript Synchronised() {
  JobScript job(1);
  job.rank(0)
      .Kernel("x", {0, 4}, 7, {5, 105})
      .Op("aten::mm", {6, 130})
      .Call("sync", RuntimeCall::kStreamSynchronize, {10, 111})
      .Kernel("y", {121, 125}, 7, {126, 136});
  job.rank(0).Names("sync", -1, 7);
  return job;
}

TEST(Edit, AsRecordedWithoutChanges) {
  JobScript job = Synchronised();
  CompileOptions options = RoundLatencies();
  options.keep_overheads = true;
  const Outcome outcome = Simulate(job, options);
  EXPECT_RAN(outcome, 0, "y", 126, 136);
}

TEST(Edit, ASynchroniseThatIsGoneHoldsNothing) {
  JobScript job = Synchronised();
  const Outcome outcome = Simulate(job, RoundLatencies(), nullptr, nullptr, [](Program& program) {
    const ItemSet calls = SelectItems(
        program, [](uint32_t, const Item& item) { return item.kind == ItemKind::kBlocking; });
    StopBlocking(program, calls);
    ChangeDurations(program, calls, {0, SimTime()});
  });
  // The CPU launches y at 20, and y follows x on the stream: 105 and a gap of 1 us.
  EXPECT_RAN(outcome, 0, "launch y", 20, 24);
  EXPECT_RAN(outcome, 0, "y", 106, 116);
}

TEST(Edit, ChangesPartsOfCpuOverheads) {
  JobScript job = Synchronised();
  CompileOptions options = RoundLatencies();
  options.keep_overheads = true;
  const Outcome outcome = Simulate(job, options, nullptr, nullptr, [](Program& program) {
    // Only the 10 us in the op before its launch, and the 4 before the synchronise: T2.
    const size_t parts =
        ChangeOverheads(program,
                        [](uint32_t, const Item&, const OverheadPart& part) {
                          return part.kind == OverheadKind::kT2 || part.kind == OverheadKind::kT5;
                        },
                        {0.5, SimTime()});
    EXPECT_EQ(parts, 2u);
  });
  EXPECT_RAN(outcome, 0, "launch y", 116, 120);
}

// Three kernels of 10 us on stream 7, launched at 0, 10 and 20, and one on stream 8 that waits for
// the second: y follows b at 33 by an event.
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

ItemSet Named(const TraceStore& store, const Program& program,
              std::initializer_list<std::string_view> names) {
  return SelectItems(program, [&](uint32_t r, const Item& item) {
    const std::string_view name = store.name(store.ranks()[r], item.node);
    return std::find(names.begin(), names.end(), name) != names.end();
  });
}

TEST(Restructure, WhatWaitedForRemovedWorkWaitsForWhatCameBeforeIt) {
  JobScript job = Chain();
  const TraceStore store = job.Build();
  JobScript again = Chain();
  const Outcome outcome =
      Simulate(again, RoundLatencies(), nullptr, nullptr,
               [&](Program& program) { RemoveDeviceWork(program, Named(store, program, {"b"})); });
  // launch b costs nothing any more: launch y moves from 15 to 11, and launch c from 20 to 16.
  EXPECT_RAN(outcome, 0, "launch y", 11, 15);
  EXPECT_RAN(outcome, 0, "y", 17, 37);  // a ends at 15, and an event takes 2
  EXPECT_RAN(outcome, 0, "c", 21, 31);  // its launch at 16 and 5
}

TEST(Restructure, FusedKernelsSaveLaunchesAndGaps) {
  JobScript job = Chain();
  const TraceStore store = job.Build();
  JobScript again = Chain();
  const Outcome outcome =
      Simulate(again, RoundLatencies(), nullptr, nullptr, [&](Program& program) {
        EXPECT_EQ(FuseDeviceWork(program, Named(store, program, {"a", "b", "c"}),
                                 [](uint32_t, const Item&) { return 0; }),
                  2u);
      });
  EXPECT_RAN(outcome, 0, "a", 5, 35);
  EXPECT_RAN(outcome, 0, "y", 37, 57);  // waits for all of it
}

TEST(Restructure, AGraphIsOneLaunch) {
  JobScript job = Chain();
  const TraceStore store = job.Build();
  JobScript again = Chain();
  const Outcome outcome =
      Simulate(again, RoundLatencies(), nullptr, nullptr, [&](Program& program) {
        EXPECT_EQ(CaptureGraphs(program, Named(store, program, {"a", "b", "y", "c"}),
                                [](uint32_t, const Item&) { return 0; }),
                  3u);
      });
  EXPECT_RAN(outcome, 0, "launch c", 4, 4);
  EXPECT_RAN(outcome, 0, "b", 16, 26);
  EXPECT_RAN(outcome, 0, "y", 28, 48);
}

// Work of 10 s, a million times slower, would take longer than a picosecond clock of 64 bits
// counts.
TEST(Edit, WorkTooLongToAddUpIsRefused) {
  JobScript job(1);
  job.rank(0).Kernel("x", {0, 4}, 7, {5, 10'000'005});
  const TraceStore store = job.Build();
  CompiledJob compiled = *Compile(store, RoundLatencies());
  ItemSet items = SelectItems(compiled.program,
                              [](uint32_t, const Item& i) { return i.kind == ItemKind::kDevice; });
  ChangeDurations(compiled.program, items, {1e6, SimTime()});
  EXPECT_THAT(Replay(store, compiled, nullptr).status().message(),
              ::testing::HasSubstr("takes over 26.7 days, one after the other"));
}

TEST(Edit, ChangesOnChangesStayWithinWhatTimesHold) {
  const DurationChange twice = DurationChange{1e200, Us(1)}.Then({1e200, Us(1)});
  EXPECT_EQ(twice.Of(Us(1)), kLongestProgram + twice.added);
  EXPECT_EQ(twice.Of(SimTime()), kLongestProgram + twice.added);
}

}  // namespace
}  // namespace foretrace
