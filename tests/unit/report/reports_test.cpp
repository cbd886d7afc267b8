// Expected numbers are read off the drawing in scenario.h.
#include <gtest/gtest.h>

#include "simulator/report/breakdown.h"
#include "simulator/report/communicators.h"
#include "simulator/report/critical_path.h"
#include "simulator/report/overlap.h"
#include "simulator/report/rank_summary.h"
#include "simulator/report/top_ops.h"
#include "tests/unit/report/scenario.h"

namespace foretrace {
namespace {

SimTime Work(const StreamBreakdown& s, WorkGroup group) {
  return s.work[static_cast<size_t>(group)];
}
SimTime Idle(const StreamBreakdown& s, WaitCause cause) {
  return s.idle[static_cast<size_t>(cause)];
}
SimTime Part(const CriticalPath& path, PathActivity activity) {
  return path.by_activity[static_cast<size_t>(activity)];
}

TEST(Breakdown, WorkAndIdleByCause) {
  const Scenario s = MakeScenario();
  const auto streams = ComputeBreakdown(*s.table, Classifier(*s.store), s.windows);
  ASSERT_EQ(streams.size(), 4u);
  const StreamBreakdown& compute = streams[0];
  EXPECT_EQ(Work(compute, WorkGroup::kGemmForward), Us(20));
  EXPECT_EQ(Work(compute, WorkGroup::kOther), Us(20));
  EXPECT_EQ(Idle(compute, WaitCause::kLaunch), Us(5));
  EXPECT_EQ(Idle(compute, WaitCause::kProgramOrder), Us(1));
  EXPECT_EQ(Idle(compute, WaitCause::kNone), Us(14));
  EXPECT_EQ(compute.busy() + compute.idle_total(), Us(60));
  const StreamBreakdown& comm = streams[1];
  EXPECT_EQ(Work(comm, WorkGroup::kAllReduce), Us(20));
  EXPECT_EQ(Idle(comm, WaitCause::kDependency), Us(25));
  EXPECT_EQ(Idle(comm, WaitCause::kCollectiveArrival), Us(10));
  EXPECT_EQ(Idle(comm, WaitCause::kNone), Us(5));
}

TEST(Breakdown, OnlyThePartInsideTheWindow) {
  Scenario s = MakeScenario();
  // [20,40): of k1 5 us, the gap, of k2 14 us; the all-reduce waits [25,35) and transfers [35,40).
  s.windows[0].predicted_start = Us(20);
  s.windows[0].predicted_end = Us(40);
  const auto streams = ComputeBreakdown(*s.table, Classifier(*s.store), s.windows);
  EXPECT_EQ(Work(streams[0], WorkGroup::kGemmForward), Us(5));
  EXPECT_EQ(Work(streams[0], WorkGroup::kOther), Us(14));
  EXPECT_EQ(Idle(streams[0], WaitCause::kLaunch), Us(0));
  EXPECT_EQ(Idle(streams[1], WaitCause::kCollectiveArrival), Us(10));
  EXPECT_EQ(Work(streams[1], WorkGroup::kAllReduce), Us(5));
}

TEST(Overlap, ExposedCommunication) {
  const Scenario s = MakeScenario();
  const auto overlap = ComputeOverlap(*s.table, s.windows);
  // Rank 0 communicates [25,55) and computes [5,25) and [26,46): [25,26) and [46,55) are exposed.
  EXPECT_EQ(overlap[0].computation, Us(40));
  EXPECT_EQ(overlap[0].communication, Us(30));
  EXPECT_EQ(overlap[0].transfer, Us(20));
  EXPECT_EQ(overlap[0].exposed, Us(10));
  EXPECT_EQ(overlap[0].exposed_transfer, Us(9));
  EXPECT_DOUBLE_EQ(overlap[0].overlapped_share(), 2.0 / 3.0);
  EXPECT_EQ(overlap[1].exposed, Us(20));
  EXPECT_DOUBLE_EQ(overlap[1].overlapped_share(), 0.0);
}

// The same moments by node, each once: what `predict --by` adds up is what the ranks' table says.
TEST(Overlap, ExposedPartsSumToExposed) {
  const Scenario s = MakeScenario();
  const auto parts = ExposedParts(*s.table, 0, s.windows[0]);
  ASSERT_EQ(parts.size(), 1u);
  EXPECT_EQ(parts[0].node, s.nodes[0].all_reduce);
  EXPECT_EQ(parts[0].time, Us(10));
}

TEST(Communicators, WhoArrivesLastAndWhatItCosts) {
  const Scenario s = MakeScenario();
  const auto communicators = ComputeCommunicators(*s.table, Classifier(*s.store), s.windows);
  ASSERT_EQ(communicators.size(), 1u);
  const CommunicatorSummary& c = communicators[0];
  EXPECT_EQ(s.store->strings().Get(c.group), "world");
  EXPECT_EQ(c.operation, WorkGroup::kAllReduce);
  EXPECT_EQ(c.members, 2);
  EXPECT_EQ(c.count, 1);
  EXPECT_EQ(c.bytes.count(), 2000);
  EXPECT_EQ(c.transfer, Us(20));
  EXPECT_EQ(c.wait, Us(10));
  EXPECT_EQ(c.worst_wait, Us(10));
  EXPECT_EQ(c.worst_rank, 0u);
  ASSERT_EQ(c.latecomers.size(), 1u);
  EXPECT_EQ(c.latecomers[0].rank, 1u);
  EXPECT_EQ(c.latecomers[0].times_last, 1);
  EXPECT_EQ(c.latecomers[0].caused_wait, Us(10));
}

TEST(RankSummary, BlockedBusyAndBaseline) {
  const Scenario s = MakeScenario();
  const auto streams = ComputeBreakdown(*s.table, Classifier(*s.store), s.windows);
  const auto ranks = ComputeRankSummaries(*s.table, streams, s.windows, s.windows);
  EXPECT_EQ(ranks[0].blocked, Us(47));  // the synchronisation, [10,57)
  EXPECT_DOUBLE_EQ(ranks[0].blocked_share(), 47.0 / 60.0);
  EXPECT_EQ(ranks[0].busy, Us(49));  // [5,25), [26,55)
  EXPECT_EQ(ranks[0].idle, Us(11));
  EXPECT_EQ(ranks[1].busy, Us(50));    // [5,55)
  EXPECT_EQ(Baseline(ranks), Us(40));  // rank 0, stream 7
  // Blocked is the CPU's, between its marks; busy the device's, in the step's window.
  std::vector<IterationWindow> marks(s.windows.begin(), s.windows.end());
  marks[0].predicted_end = marks[0].predicted_start + Us(20);
  const auto ahead = ComputeRankSummaries(*s.table, streams, s.windows, marks);
  EXPECT_EQ(ahead[0].blocked, Us(10));  // [10,20)
  EXPECT_DOUBLE_EQ(ahead[0].blocked_share(), 0.5);
  EXPECT_EQ(ahead[0].busy, Us(49));
}

TEST(TopOps, ByKernelAndByOp) {
  const Scenario s = MakeScenario();
  const TopOps top = ComputeTopOps(*s.table, Classifier(*s.store), s.windows, 2);
  EXPECT_EQ(top.device_time, Us(110));  // 20 + 20 + 20 and 30 + 20
  ASSERT_EQ(top.kernels.size(), 2u);
  EXPECT_EQ(s.store->strings().Get(top.kernels[0].name), Scenario::kGemm);
  EXPECT_EQ(top.kernels[0].count, 2);
  EXPECT_EQ(top.kernels[0].time, Us(50));
  EXPECT_DOUBLE_EQ(top.kernels[0].share, 50.0 / 110.0);
  ASSERT_EQ(top.ops.size(), 2u);
  EXPECT_EQ(s.store->strings().Get(top.ops[0].name), "");  // launched outside any op
  EXPECT_EQ(top.ops[0].time, Us(60));
  EXPECT_EQ(s.store->strings().Get(top.ops[1].name), "aten::linear");
}

// Rank 0's end is bound by its synchronisation, that by the all-reduce, that by rank 1's arrival,
// that by rank 1's kernel, that by rank 1's launch.
TEST(CriticalPath, CrossesRanksAtTheLastArrival) {
  const Scenario s = MakeScenario();
  const CriticalPath path = ComputeCriticalPath(*s.table, Classifier(*s.store), s.windows);
  EXPECT_EQ(path.total, Us(60));
  EXPECT_EQ(Part(path, PathActivity::kCpu), Us(7));  // [0,2) and [2,4) on rank 1, [57,60) on rank 0
  EXPECT_EQ(Part(path, PathActivity::kLaunchLatency), Us(1));
  EXPECT_EQ(Part(path, PathActivity::kCompute), Us(30));
  EXPECT_EQ(Part(path, PathActivity::kTransfer), Us(20));
  EXPECT_EQ(Part(path, PathActivity::kBlockReturn), Us(2));
  EXPECT_EQ(path.by_source[static_cast<size_t>(EstimateSource::kCalibrated)], Us(20));
  EXPECT_EQ(path.by_source[static_cast<size_t>(EstimateSource::kRecorded)], Us(40));
  EXPECT_EQ(path.by_rank[0], Us(25));
  EXPECT_EQ(path.by_rank[1], Us(35));
  EXPECT_EQ(path.by_group[static_cast<size_t>(WorkGroup::kGemmForward)], Us(30));
  ASSERT_EQ(path.runs.size(), 4u);
  EXPECT_EQ(path.runs[0].kind, PathRunKind::kCpu);
  EXPECT_EQ(path.runs[0].rank, 1u);
  EXPECT_EQ(s.store->strings().Get(path.runs[0].name), "aten::linear");
  EXPECT_EQ(path.runs[1].kind, PathRunKind::kCompute);
  EXPECT_EQ(path.runs[1].latency, Us(1));
  EXPECT_EQ(path.runs[1].group, WorkGroup::kGemmForward);
  EXPECT_EQ(path.runs[2].kind, PathRunKind::kCommunication);
  EXPECT_EQ(path.runs[2].rank, 0u);
  EXPECT_EQ(path.runs[3].time(), Us(5));
  EXPECT_EQ(LongestRuns(path, 1)[0].time(), Us(31));
}

// Two transfers of one communicator, both ready at 0: one takes until 20, the other from then until
// 50. There are transfers alone on the path.
TEST(CriticalPath, GoesThroughTheTransferThatACommunicatorHadToFinish) {
  Scenario s = MakeScenario();
  EventTable table(*s.store);
  const NodeRef first{1, s.nodes[1].all_reduce}, second{0, s.nodes[0].all_reduce};
  for (const NodeRef node : {first, second}) {
    NodeEvent e;
    e.node = node;
    e.lane = s.store->ranks()[node.rank].lane(node.node);
    e.start = Us(0);
    e.active_start = Us(node.rank == 1 ? 0 : 20);
    e.end = Us(node.rank == 1 ? 20 : 50);
    if (node.rank == 0) e.end_cause = WaitCause::kCommunicatorBusy;
    if (node.rank == 0) e.end_binding = first;
    table.OnNode(e);
  }
  for (IterationWindow& window : s.windows) window.predicted_end = Us(50);
  const CriticalPath path = ComputeCriticalPath(table, Classifier(*s.store), s.windows);
  EXPECT_EQ(path.total, Us(50));
  EXPECT_EQ(Part(path, PathActivity::kTransfer), Us(50));
  EXPECT_EQ(Part(path, PathActivity::kArrivalLatency), Us(0));
}

// A blocking copy: its call [10,57) waits for the device work that it issued itself, [12,55).
// The path enters the call from that work and must go on to the call's own start.
TEST(CriticalPath, PassesThroughACallThatWaitsForWhatItIssued) {
  Scenario s = MakeScenario();
  EventTable table(*s.store);
  const Scenario::Nodes& n = s.nodes[1];
  const auto tell = [&](NodeIndex node, int64_t start, int64_t end, WaitCause cause,
                        NodeIndex binding, NodeIndex awaited) {
    NodeEvent e;
    e.node = {1, node};
    e.lane = s.store->ranks()[1].lane(node);
    e.start = e.active_start = Us(start);
    e.end = Us(end);
    e.cause = cause;
    e.binding = {1, binding};
    e.end_binding = {1, awaited};
    if (awaited.valid()) e.end_cause = WaitCause::kCpuBlock;
    table.OnNode(e);
  };
  tell(n.launch_k1, 2, 4, WaitCause::kNone, {}, {});
  tell(n.sync, 10, 57, WaitCause::kProgramOrder, n.launch_k1, n.k1);
  tell(n.k1, 12, 55, WaitCause::kLaunch, n.sync, {});
  s.windows[0].predicted_end = Us(1);
  const CriticalPath path = ComputeCriticalPath(table, Classifier(*s.store), s.windows);
  EXPECT_EQ(path.total, Us(60));
  EXPECT_EQ(Part(path, PathActivity::kUnexplained), Us(0));
  EXPECT_EQ(Part(path, PathActivity::kCompute), Us(43));
  EXPECT_EQ(Part(path, PathActivity::kBlockReturn), Us(2));
  EXPECT_EQ(Part(path, PathActivity::kCpu), Us(15));  // [0,12), [57,60)
}

// As CrossesRanksAtTheLastArrival, but rank 1 begins its iteration at 3, within its launch.
TEST(CriticalPath, DoesNotFollowAnotherRankBeforeItsIteration) {
  Scenario s = MakeScenario();
  s.windows[1].predicted_start = Us(3);
  const CriticalPath path = ComputeCriticalPath(*s.table, Classifier(*s.store), s.windows);
  EXPECT_EQ(path.end_rank, 0u);
  EXPECT_EQ(path.total, Us(60));
  EXPECT_EQ(Part(path, PathActivity::kStartSkew), Us(3));
  EXPECT_EQ(Part(path, PathActivity::kCpu), Us(4));  // [3,4), [57,60)
  EXPECT_EQ(path.runs[0].kind, PathRunKind::kStartSkew);
  EXPECT_EQ(path.runs[0].rank, 1u);
}

// Rank 1 begins its iteration at 3 and makes its first call at 5: until 3 is skew, from there on
// the CPU works.
TEST(CriticalPath, WorkBeforeTheFirstCallIsNoSkew) {
  Scenario s = MakeScenario();
  EventTable table(*s.store);
  const Scenario::Nodes& n = s.nodes[1];
  NodeEvent first;
  first.node = {1, n.launch_k1};
  first.lane = s.store->ranks()[1].lane(n.launch_k1);
  first.start = first.active_start = Us(5);
  first.end = Us(60);
  first.cause = WaitCause::kStartSkew;
  table.OnNode(first);
  s.windows[0].predicted_end = Us(1);
  s.windows[1].predicted_start = Us(3);
  s.windows[0].predicted_start = s.windows[1].predicted_start - Us(3);
  const CriticalPath path = ComputeCriticalPath(table, Classifier(*s.store), s.windows);
  EXPECT_EQ(Part(path, PathActivity::kUnexplained), Us(0));
  EXPECT_EQ(Part(path, PathActivity::kCpu) + Part(path, PathActivity::kStartSkew), path.total);
  EXPECT_LE(Part(path, PathActivity::kStartSkew), Us(3));
}

TEST(CriticalPath, AnOpenChainIsUnexplained) {
  Scenario s = MakeScenario();
  EventTable table(*s.store);  // nothing was told
  const CriticalPath path = ComputeCriticalPath(table, Classifier(*s.store), s.windows);
  EXPECT_EQ(path.total, Us(60));
  EXPECT_EQ(Part(path, PathActivity::kUnexplained), Us(60));
  EXPECT_EQ(path.by_source[static_cast<size_t>(EstimateSource::kMissing)], Us(60));
}

}  // namespace
}  // namespace foretrace
