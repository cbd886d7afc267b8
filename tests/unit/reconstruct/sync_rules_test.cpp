// One test for each rule of synchronisation inside a rank.
#include "simulator/reconstruct/sync_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "simulator/reconstruct/reconstruction.h"
#include "tests/support/job_script.h"
#include "tests/support/test_driver.h"

namespace foretrace {
namespace {

struct Inferred {
  explicit Inferred(JobScript& job) : store(job.Build()) {
    const RankTrace& rank = store.ranks()[0];
    sync = RankReconstruction(store, rank, TestDriver()).sync;
  }
  const RuleCount& rule(SyncRule rule) const { return sync.rules[static_cast<int>(rule)]; }
  // "producer>consumer (rule)" of each edge.
  std::vector<std::string> Text(const std::vector<SyncEdge>& edges) const {
    std::vector<std::string> text;
    const RankTrace& rank = store.ranks()[0];
    for (const SyncEdge& e : edges) {
      text.push_back(std::string(store.name(rank, e.producer)) + ">" +
                     std::string(store.name(rank, e.consumer)) + " (" + std::string(Name(e.rule)) +
                     ")");
    }
    return text;
  }
  TraceStore store;
  RankSync sync;
};

using Edges = std::vector<std::string>;

TEST(SyncRules, EventIds) {
  JobScript job(1);
  job.rank(0)
      .Kernel("a", {0, 4}, 7, {9, 50})
      .Call("record", RuntimeCall::kEventRecord, {4, 5})
      .Call("wait", RuntimeCall::kStreamWaitEvent, {5, 6})
      .Kernel("b", {6, 10}, 8, {52, 60})
      .Names("record", 3, 7)
      .Names("wait", 3, 8);
  const Inferred inferred(job);
  EXPECT_EQ(inferred.Text(inferred.sync.device_edges), Edges{"a>b (event_id)"});
  EXPECT_EQ(inferred.rule(SyncRule::kEventId).applied, 1);
  EXPECT_EQ(inferred.rule(SyncRule::kEventId).tight, 1);
}

TEST(SyncRules, AnEdgeThatTheRecordingContradictsIsDroppedAndCounted) {
  JobScript job(1);
  job.rank(0)
      .Kernel("a", {0, 4}, 7, {9, 50})
      .Call("record", RuntimeCall::kEventRecord, {4, 5})
      .Call("wait", RuntimeCall::kStreamWaitEvent, {5, 6})
      .Kernel("b", {6, 10}, 8, {30, 60})
      .Names("record", 3, 7)
      .Names("wait", 3, 8);
  const Inferred inferred(job);
  EXPECT_TRUE(inferred.sync.device_edges.empty());
  EXPECT_EQ(inferred.rule(SyncRule::kEventId).violations, 1);
}

TEST(SyncRules, DataDependenciesBetweenOpsOnTwoStreams) {
  JobScript job(1);
  job.rank(0)
      .Op("produce", {0, 5})
      .Kernel("a", {1, 4}, 7, {9, 50})
      .Op("view", {5, 6})
      .Op("consume", {6, 12})
      .Kernel("b", {7, 10}, 8, {52, 60})
      .Depends("view", "produce")
      .Depends("consume", "view");
  const Inferred inferred(job);
  EXPECT_EQ(inferred.Text(inferred.sync.device_edges), Edges{"a>b (data_dependency)"});
}

TEST(SyncRules, DeclaredDependenciesOfDeviceNodes) {
  JobScript job(1);
  job.rank(0)
      .Kernel("a", {0, 4}, 7, {9, 50})
      .Kernel("b", {6, 10}, 8, {52, 60})
      .Depends("b", "a", DependencyKind::kSync);
  const Inferred inferred(job);
  EXPECT_EQ(inferred.Text(inferred.sync.device_edges), Edges{"a>b (declared_dependency)"});
}

TEST(SyncRules, ACollectiveFollowsTheTailOfTheComputeStream) {
  JobScript job(1);
  job.rank(0)
      .Kernel("a", {0, 4}, 7, {9, 20})
      .Kernel("b", {5, 9}, 7, {21, 40})
      .Collective("ar", CollectiveOp::kAllReduce, "", {10, 14}, 20, {42, 60});
  const Inferred inferred(job);
  EXPECT_EQ(inferred.Text(inferred.sync.device_edges), Edges{"b>ar (collective_input)"});
}

// Two outstanding collectives and a wait; which one it refers to.
Edges WaitChoice(bool launch_between, bool consumes_second) {
  JobScript job(1);
  RankScript& rank = job.rank(0);
  rank.Op("nccl:all_reduce", {0, 5})
      .Collective("x", CollectiveOp::kAllReduce, "", {1, 4}, 20, {9, 20});
  rank.Op("nccl:all_gather", {5, 10})
      .Collective("y", CollectiveOp::kAllGather, "", {6, 9}, 21, {10, 30});
  if (launch_between) rank.Kernel("between", {11, 13}, 7, {31, 32});
  rank.Call("wait", RuntimeCall::kStreamWaitEvent, {14, 15});
  rank.Op("consume", {16, 20}).Kernel("k", {17, 19}, 7, {40, 50});
  if (consumes_second) rank.Depends("consume", "nccl:all_gather");
  const Inferred inferred(job);
  return inferred.Text(inferred.sync.device_edges);
}

TEST(SyncRules, AWaitRightAfterACollectiveIsForThatOne) {
  EXPECT_EQ(WaitChoice(false, false), Edges{"y>k (collective_wait)"});
}

TEST(SyncRules, ALaterWaitIsForTheOldestCollective) {
  EXPECT_EQ(WaitChoice(true, false), Edges{"x>k (collective_wait)"});
}

TEST(SyncRules, TensorIdsDecideBeforeAge) {
  EXPECT_EQ(WaitChoice(true, true), Edges{"y>k (data_dependency)"});
}

TEST(SyncRules, AWaitInsideTheCollectivesOwnRangeIsItsOwn) {
  JobScript job(1);
  job.rank(0)
      .Op("nccl:all_reduce", {0, 20})
      .Collective("x", CollectiveOp::kAllReduce, "", {1, 4}, 20, {9, 30})
      .Call("wait", RuntimeCall::kStreamWaitEvent, {5, 6})
      .Kernel("k", {21, 24}, 7, {40, 50});
  EXPECT_TRUE(Inferred(job).sync.device_edges.empty());
}

TEST(SyncRules, AWaitWhereTheStreamChangesFollowsTheStreamLeft) {
  JobScript job(1);
  job.rank(0)
      .Kernel("a", {0, 4}, 7, {9, 20})
      .Call("wait", RuntimeCall::kStreamWaitEvent, {5, 6})
      .Kernel("b", {7, 10}, 8, {22, 30});
  const Inferred inferred(job);
  EXPECT_EQ(inferred.Text(inferred.sync.device_edges), Edges{"a>b (stream_hand_off)"});
}

TEST(SyncRules, AWaitForWhatTheStreamHasWaitedForIsAnotherStreams) {
  JobScript job(1);
  job.rank(0)
      .Kernel("side", {0, 4}, 8, {9, 50})
      .Call("join", RuntimeCall::kStreamWaitEvent, {4, 5})
      .Kernel("main", {6, 10}, 7, {52, 60})
      .Call("fork", RuntimeCall::kStreamWaitEvent, {10, 11})
      .Kernel("first", {12, 14}, 7, {61, 90})
      .Kernel("beside", {14, 16}, 8, {70, 99});
  const Inferred inferred(job);
  EXPECT_EQ(inferred.Text(inferred.sync.device_edges),
            (Edges{"side>main (stream_hand_off)", "main>beside (stream_hand_off)"}));
}

TEST(SyncRules, AWaitThatDidNotHoldAStreamsNextWorkIsNotThatStreams) {
  JobScript job(1);
  job.rank(0)
      .Kernel("side", {0, 4}, 8, {9, 50})
      .Call("wait", RuntimeCall::kStreamWaitEvent, {4, 5})
      .Kernel("at_once", {6, 10}, 7, {12, 55})
      .Kernel("later", {10, 12}, 7, {56, 60});
  const Inferred inferred(job);
  EXPECT_TRUE(inferred.sync.device_edges.empty());
  EXPECT_EQ(inferred.sync.unresolved_waits, 1);
}

TEST(SyncRules, AWaitThatNothingExplainsIsCounted) {
  JobScript job(1);
  job.rank(0).Call("wait", RuntimeCall::kStreamWaitEvent, {0, 1}).Kernel("a", {2, 4}, 7, {9, 20});
  const Inferred inferred(job);
  EXPECT_TRUE(inferred.sync.device_edges.empty());
  EXPECT_EQ(inferred.sync.unresolved_waits, 1);
}

TEST(SyncRules, ASynchroniseWithoutAStreamIsForTheOneUsedLast) {
  JobScript job(1);
  job.rank(0)
      .Kernel("a", {0, 4}, 7, {9, 100})
      .Kernel("b", {5, 8}, 8, {14, 50})
      .Call("sync", RuntimeCall::kStreamSynchronize, {9, 55});
  const Inferred inferred(job);
  EXPECT_EQ(inferred.Text(inferred.sync.block_edges), Edges{"b>sync (blocking_last_stream)"});
  EXPECT_EQ(inferred.rule(SyncRule::kBlockingLastStream).tight, 1);
}

TEST(SyncRules, ANamedStreamAndTheWholeDevice) {
  JobScript job(1);
  job.rank(0)
      .Kernel("a", {0, 4}, 7, {9, 100})
      .Kernel("b", {5, 8}, 8, {14, 50})
      .Call("stream", RuntimeCall::kStreamSynchronize, {9, 105})
      .Names("stream", -1, 7)
      .Call("device", RuntimeCall::kDeviceSynchronize, {106, 110});
  const Inferred inferred(job);
  EXPECT_EQ(inferred.Text(inferred.sync.block_edges),
            (Edges{"a>stream (event_id)", "a>device (event_id)", "b>device (event_id)"}));
}

// Two iterations of a pipeline that records an event on stream 7 before its forward pass, and makes
// stream 8 wait for it after. `from_event` is when the side stream's work starts after the event's.
TraceStore Prefetching(double from_event) {
  JobScript job(1);
  RankScript& rank = job.rank(0);
  for (int i = 0; i < 2; ++i) {
    const double t = 2000.0 * i;
    const std::string n = std::to_string(i);
    rank.Op("## load 1" + n + " ##", {t, t + 10})
        .Kernel("before" + n, {t + 2, t + 6}, 7, {t + 10, t + 500});
    rank.Op("## forward ##", {t + 20, t + 40})
        .Kernel("forward" + n, {t + 22, t + 26}, 7, {t + 502, t + 1500});
    rank.Op("## dist ##", {t + 50, t + 90})
        .Call("wait" + n, RuntimeCall::kStreamWaitEvent, {t + 52, t + 53})
        .Kernel("side" + n, {t + 60, t + 64}, 8, {t + 500 + from_event, t + 520 + from_event});
  }
  return job.Build();
}

RankSync SyncOf(const TraceStore& store) {
  const RankTrace& rank = store.ranks()[0];
  return RankReconstruction(store, rank, TestDriver()).sync;
}

TEST(SyncRules, AWaitForAnEventThatWasRecordedBeforeTheForwardPass) {
  const TraceStore store = Prefetching(4);
  const RankSync sync = SyncOf(store);
  const RankTrace& rank = store.ranks()[0];
  ASSERT_EQ(sync.device_edges.size(), 2u);
  for (int i = 0; i < 2; ++i) {
    const SyncEdge& edge = sync.device_edges[i];
    EXPECT_EQ(store.name(rank, edge.consumer), "side" + std::to_string(i));
    EXPECT_EQ(store.name(rank, edge.producer), "before" + std::to_string(i));
    EXPECT_EQ(edge.rule, SyncRule::kEarlierEvent);
  }
  EXPECT_EQ(sync.unresolved_waits, 0);
  EXPECT_TRUE(sync.held.empty());
}

TEST(SyncRules, AWaitThatHeldWorkUpAndFitsNothingIsCountedWithItsTime) {
  // 300 us after anything that could have been waited for.
  const TraceStore store = Prefetching(300);
  const RankSync sync = SyncOf(store);
  // Launched at 60; nothing before it on its stream, and no edge: 740 us that nothing explains. The
  // first time it may have been for work of before the recording.
  ASSERT_EQ(sync.held.size(), 1u);
  EXPECT_EQ(sync.held[0].time, Us(740));
  EXPECT_EQ(store.name(store.ranks()[0], sync.held[0].held), "side1");
  ASSERT_EQ(sync.after_unrecorded.size(), 1u);
  EXPECT_EQ(sync.after_unrecorded[0].time, Us(740));
  EXPECT_EQ(store.name(store.ranks()[0], sync.after_unrecorded[0].held), "side0");
}

TEST(SyncRules, ASynchroniseForWorkThatIsNotRecordedIsKept) {
  // Nothing recorded ends before 900; the call returns at 600, and the first work begins at 700.
  JobScript job(1);
  job.rank(0)
      .Kernel("a", {0, 4}, 7, {700, 900})
      .Call("synchronize", RuntimeCall::kEventSynchronize, {6, 600});
  const Inferred inferred(job);
  ASSERT_EQ(inferred.sync.after_unrecorded.size(), 2u);
  EXPECT_EQ(inferred.sync.after_unrecorded[0].time, Us(594));
  EXPECT_EQ(inferred.sync.after_unrecorded[1].time, Us(700));
  EXPECT_TRUE(inferred.sync.held.empty());
}

TEST(SyncRules, AWaitThatHeldNothingMayHaveMeantAnythingThatHadEnded) {
  // "b" of stream 8 was issued before the wait, and had ended long before the consumer began, which
  // followed "a"; "c" ended after that.
  JobScript job(1);
  job.rank(0)
      .Kernel("a", {0, 4}, 7, {9, 500})
      .Kernel("b", {5, 9}, 8, {14, 100})
      .Kernel("c", {10, 14}, 8, {101, 800})
      .Call("wait", RuntimeCall::kStreamWaitEvent, {20, 21})
      .Kernel("consumer", {22, 26}, 7, {502, 600});
  const Inferred inferred(job);
  const UnshownWaits& unshown = inferred.sync.unshown;
  ASSERT_EQ(unshown.calls.size(), 1u);
  ASSERT_EQ(unshown.latest.size(), 1u);
  const RankTrace& rank = inferred.store.ranks()[0];
  EXPECT_EQ(inferred.store.name(rank, unshown.latest[0].producer), "b");
  EXPECT_EQ(inferred.store.name(rank, unshown.latest[0].consumer), "consumer");
}

TEST(SyncRules, ABlockingCallThatReturnedBeforeTheWorkEndedDidNotWaitForIt) {
  JobScript job(1);
  job.rank(0)
      .Kernel("a", {0, 4}, 7, {9, 500})
      .Call("synchronize", RuntimeCall::kStreamSynchronize, {6, 10});
  const Inferred inferred(job);
  EXPECT_TRUE(inferred.sync.block_edges.empty());
  EXPECT_EQ(inferred.rule(SyncRule::kBlockingLastStream).violations, 1);
}

// Launches of one graph: a on stream 7, then s beside b, whose end c follows. `late`: c of the
// first launch begins so much later.
JobScript ForkedGraph(int launches, double late) {
  JobScript job(1);
  RankScript& rank = job.rank(0);
  for (int i = 0; i < launches; ++i) {
    const double at = 1000.0 * i;
    const double c = at + 302 + (i == 0 ? late : 0);
    rank.Call("graph", RuntimeCall::kGraphLaunch, {at, at + 9})
        .InGraph("a", "graph", 7, {at + 15, at + 100})
        .InGraph("s", "graph", 8, {at + 102, at + 300})
        .InGraph("b", "graph", 7, {at + 101, at + 200})
        .InGraph("c", "graph", 7, {c, c + 50});
  }
  return job;
}

TEST(SyncRules, StreamsOfAGraphWaitForWhatHeldThemUpInMostLaunches) {
  // a ends 2 us before s begins, s 2 us before c; b begins 1 us after a, on the same stream.
  JobScript job = ForkedGraph(3, 0);
  const Inferred inferred(job);
  Edges expected;
  for (int i = 0; i < 3; ++i) {
    expected.insert(expected.end(), {"a>s (graph_branch)", "s>c (graph_branch)"});
    // The graph before has to be done, on both streams.
    if (i > 0) expected.insert(expected.end(), {"s>a (graph_branch)", "c>s (graph_branch)"});
  }
  Edges found = inferred.Text(inferred.sync.device_edges);
  std::sort(found.begin(), found.end());
  std::sort(expected.begin(), expected.end());
  EXPECT_EQ(found, expected);
  EXPECT_EQ(inferred.rule(SyncRule::kGraphBranch).violations, 0);
}

TEST(SyncRules, AGraphsBranchIsJudgedOverAllLaunches) {
  // One of three c is late; of two launches one is not most.
  JobScript three = ForkedGraph(3, 40);
  const Inferred most(three);
  EXPECT_THAT(most.Text(most.sync.device_edges),
              ::testing::Contains("s>c (graph_branch)").Times(3));
  JobScript two = ForkedGraph(2, 40);
  const Inferred half(two);
  EXPECT_THAT(half.Text(half.sync.device_edges),
              ::testing::Not(::testing::Contains("s>c (graph_branch)")));
}

TEST(SyncRules, ASynchroniseAfterAGraphWaitsForAllItsStreams) {
  JobScript job(1);
  job.rank(0)
      .Call("graph", RuntimeCall::kGraphLaunch, {0, 9})
      .InGraph("a", "graph", 7, {15, 100})
      .InGraph("s", "graph", 8, {102, 300})
      .Call("sync", RuntimeCall::kStreamSynchronize, {20, 306});
  const Inferred inferred(job);
  EXPECT_EQ(inferred.Text(inferred.sync.block_edges),
            (Edges{"a>sync (blocking_last_stream)", "s>sync (graph_branch)"}));
}

TEST(SyncRules, ARecordedEventIsOnTheStreamThatItsWaitNames) {
  // The record call itself names nothing, and stream 8 was used last.
  JobScript job(1);
  job.rank(0)
      .Kernel("a", {0, 4}, 7, {9, 50})
      .Kernel("b", {4, 6}, 8, {12, 20})
      .Call("record", RuntimeCall::kEventRecord, {6, 7})
      .Call("wait", RuntimeCall::kStreamWaitEvent, {7, 8})
      .Kernel("c", {8, 10}, 9, {52, 60});
  job.rank(0).NamesRecord("wait", "record", 9, 7);
  const Inferred inferred(job);
  EXPECT_EQ(inferred.Text(inferred.sync.device_edges), Edges{"a>c (event_id)"});
}

TEST(SyncRules, AnEventComesAfterTheWaitsThatItsStreamHasMade) {
  // Stream 8 waits for a and issues nothing; what waits for its event waits for a, too.
  JobScript job(1);
  job.rank(0)
      .Kernel("b", {0, 2}, 8, {5, 8})
      .Kernel("a", {2, 4}, 7, {9, 50})
      .Call("record a", RuntimeCall::kEventRecord, {5, 6})
      .Call("wait a", RuntimeCall::kStreamWaitEvent, {6, 7})
      .Call("record 8", RuntimeCall::kEventRecord, {7, 8})
      .Call("wait 8", RuntimeCall::kStreamWaitEvent, {8, 9})
      .Kernel("c", {10, 12}, 9, {52, 60});
  job.rank(0).NamesRecord("wait a", "record a", 8, 7).NamesRecord("wait 8", "record 8", 9, 8);
  const Inferred inferred(job);
  EXPECT_EQ(inferred.Text(inferred.sync.device_edges), (Edges{"b>c (event_id)", "a>c (event_id)"}));
}

}  // namespace
}  // namespace foretrace
