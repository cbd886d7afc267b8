// Invariants of the reports on random sets of events, sensible or not.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "simulator/base/check.h"
#include "simulator/report/prediction_report.h"
#include "simulator/report/report_json.h"
#include "simulator/trace/builder.h"

namespace foretrace {
namespace {

constexpr RankIndex kRanks = 3;
constexpr uint32_t kNodes = 24;
constexpr uint32_t kLanes = 4;  // one thread, three streams

TraceStore RandomStore() {
  std::vector<std::pair<RankTrace, std::unique_ptr<StringPool>>> ranks;
  for (RankIndex r = 0; r < kRanks; ++r) {
    RankInfo info;
    info.rank = static_cast<int32_t>(r);
    RankTraceBuilder b(info);
    std::vector<LaneIndex> lanes = {b.AddLane(Lane::Kind::kCpuThread, 1)};
    for (uint32_t l = 1; l < kLanes; ++l) lanes.push_back(b.AddLane(Lane::Kind::kStream, l));
    for (uint32_t i = 0; i < kNodes; ++i) {
      const auto lane = *rc::gen::inRange<uint32_t>(0, kLanes);
      RankTraceBuilder::NodeSpec spec;
      spec.kind = lane == 0 ? NodeKind::kRuntimeCall
                            : *rc::gen::element(NodeKind::kKernel, NodeKind::kMemcpy,
                                                NodeKind::kCollective, NodeKind::kSend);
      spec.name = "node";
      spec.lane = lanes[lane];
      spec.start = SimTime::FromPs(i);
      spec.duration = SimTime::FromPs(1);
      b.AddNode(spec);
    }
    auto built = b.Build({});
    FORETRACE_CHECK(built.ok());
    ranks.emplace_back(std::move(built->trace), std::move(built->strings));
  }
  auto store = TraceStore::Assemble(std::move(ranks), {});
  FORETRACE_CHECK(store.ok());
  return *std::move(store);
}

NodeRef RandomRef() {
  NodeRef ref;
  ref.rank = *rc::gen::inRange<RankIndex>(0, kRanks);
  if (*rc::gen::inRange(0, 5) > 0) ref.node = NodeIndex(*rc::gen::inRange<uint32_t>(0, kNodes));
  return ref;
}

WaitCause RandomCause() {
  return static_cast<WaitCause>(*rc::gen::inRange(0, static_cast<int>(WaitCause::kCount)));
}

// Lanes are in order of time, as the engine promises; bindings point anywhere, also forward in time
// and around in circles.
void TellRandomEvents(const TraceStore& store, EventTable& table) {
  for (RankIndex r = 0; r < kRanks; ++r) {
    std::vector<int64_t> lane_end(kLanes);
    for (uint32_t i = 0; i < kNodes; ++i) {
      NodeEvent e;
      e.node = {r, NodeIndex(i)};
      e.lane = store.ranks()[r].lane(e.node.node);
      int64_t& at = lane_end[e.lane.value];
      e.start = SimTime::FromPs(at + *rc::gen::inRange(0, 8));
      e.active_start = e.start;
      if (IsCommunicationKind(store.ranks()[r].kind(e.node.node))) {
        e.active_start += SimTime::FromPs(*rc::gen::inRange(0, 8));
      }
      e.end = e.active_start + SimTime::FromPs(*rc::gen::inRange(0, 12));
      at = e.end.ps();
      e.source = static_cast<EstimateSource>(
          *rc::gen::inRange(0, static_cast<int>(EstimateSource::kCount)));
      e.cause = RandomCause();
      e.binding = RandomRef();
      e.end_cause = RandomCause();
      e.end_binding = RandomRef();
      table.OnNode(e);
    }
  }
}

std::vector<IterationWindow> RandomWindows() {
  std::vector<IterationWindow> windows(kRanks);
  for (IterationWindow& w : windows) {
    w.predicted_start = SimTime::FromPs(*rc::gen::inRange(-5, 60));
    w.predicted_end = w.predicted_start + SimTime::FromPs(*rc::gen::inRange(1, 120));
  }
  return windows;
}

template <typename Times>
SimTime Sum(const Times& times) {
  SimTime sum;
  for (SimTime t : times) sum += t;
  return sum;
}

RC_GTEST_PROP(CriticalPath, SegmentsTileTheLongestIteration, ()) {
  const TraceStore store = RandomStore();
  EventTable table(store);
  TellRandomEvents(store, table);
  const auto windows = RandomWindows();
  const CriticalPath path = ComputeCriticalPath(table, Classifier(store), windows);
  SimTime longest;
  for (const IterationWindow& w : windows) longest = std::max(longest, w.predicted());
  RC_ASSERT(path.total == longest);
  RC_ASSERT(windows[path.end_rank].predicted() == longest);
  SimTime at = windows[path.end_rank].predicted_start;
  for (const PathSegment& segment : path.segments) {
    RC_ASSERT(segment.start == at);
    RC_ASSERT(segment.end > segment.start);
    at = segment.end;
  }
  RC_ASSERT(at == windows[path.end_rank].predicted_end);
  SimTime in_runs;
  for (const PathRun& run : path.runs) in_runs += run.time();
  RC_ASSERT(in_runs == longest);
  RC_ASSERT(Sum(path.by_activity) == longest);
  RC_ASSERT(Sum(path.by_source) == longest);
  RC_ASSERT(Sum(path.by_rank) == longest);
}

RC_GTEST_PROP(Breakdown, WorkAndIdleFillEachWindow, ()) {
  const TraceStore store = RandomStore();
  EventTable table(store);
  TellRandomEvents(store, table);
  const auto windows = RandomWindows();
  for (const StreamBreakdown& s : ComputeBreakdown(table, Classifier(store), windows)) {
    RC_ASSERT(s.busy() + s.idle_total() == windows[s.rank].predicted());
    for (SimTime t : s.work) RC_ASSERT(t >= SimTime());
    for (SimTime t : s.idle) RC_ASSERT(t >= SimTime());
  }
}

// Against counting picosecond by picosecond.
RC_GTEST_PROP(Overlap, EqualsCountingInstants, ()) {
  const TraceStore store = RandomStore();
  EventTable table(store);
  TellRandomEvents(store, table);
  const auto windows = RandomWindows();
  const auto overlap = ComputeOverlap(table, windows);
  for (RankIndex r = 0; r < kRanks; ++r) {
    int64_t computation = 0, communication = 0, exposed = 0, exposed_transfer = 0;
    for (SimTime t = windows[r].predicted_start; t < windows[r].predicted_end;
         t += SimTime::FromPs(1)) {
      bool computes = false, communicates = false, transfers = false;
      for (const ExecutedNode& e : table.events(r)) {
        const NodeKind kind = store.ranks()[r].kind(e.node);
        if (!IsDeviceKind(kind) || t < e.start || t >= e.end) continue;
        computes |= !IsCommunicationKind(kind);
        communicates |= IsCommunicationKind(kind);
        transfers |= IsCommunicationKind(kind) && t >= e.active_start;
      }
      computation += computes;
      communication += communicates;
      exposed += communicates && !computes;
      exposed_transfer += transfers && !computes;
    }
    RC_ASSERT(overlap[r].computation.ps() == computation);
    RC_ASSERT(overlap[r].communication.ps() == communication);
    RC_ASSERT(overlap[r].exposed.ps() == exposed);
    RC_ASSERT(overlap[r].exposed_transfer.ps() == exposed_transfer);
    SimTime by_node;
    for (const ExposedPart& part : ExposedParts(table, r, windows[r])) by_node += part.time;
    RC_ASSERT(by_node == overlap[r].exposed);
  }
}

RC_GTEST_PROP(PredictionReport, IsDeterministic, ()) {
  const TraceStore store = RandomStore();
  EventTable table(store);
  TellRandomEvents(store, table);
  const auto windows = RandomWindows();
  std::vector<std::vector<IterationWindow>> per_rank;
  for (const IterationWindow& w : windows) per_rank.push_back({w});
  const auto a = BuildPredictionReport(table, per_rank, {});
  const auto b = BuildPredictionReport(table, per_rank, {});
  RC_ASSERT(a.ok());
  RC_ASSERT(ReportJson(*a, store) == ReportJson(*b, store));
}

}  // namespace
}  // namespace foretrace
