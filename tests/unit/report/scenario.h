#pragma once
// Two ranks that train one step of 60 us; rank 1's kernel is longer, so that rank 0 waits for it in
// the all-reduce. Per rank one thread, a compute stream (7) and a communication stream (20). In us:
//
//   thread   [2,4] launch k1, [6,8] launch all-reduce, rank 0: [8,9] launch k2, [10,57] synchronise
//   rank 0   stream 7: k1 (GEMM) [5,25], k2 (element-wise) [26,46]; stream 20: [25,55], active 35
//   rank 1   stream 7: k1 (GEMM) [5,35];                            stream 20: [35,55], active 35

#include <memory>
#include <utility>
#include <vector>

#include "simulator/base/check.h"
#include "simulator/report/event_table.h"
#include "simulator/trace/builder.h"

namespace foretrace {

inline SimTime Us(int64_t us) { return SimTime::FromNs(us * 1000); }

struct Scenario {
  // Nodes as the builder orders them; valid for both ranks but k2, which only rank 0 has.
  struct Nodes {
    NodeIndex step, linear, launch_k1, launch_ar, launch_k2, sync, k1, k2, all_reduce;
  };
  std::unique_ptr<TraceStore> store;
  std::unique_ptr<EventTable> table;
  std::vector<Nodes> nodes;  // by rank
  std::vector<IterationWindow> windows;

  static constexpr const char* kGemm = "volta_sgemm_128x32_tn";
  static constexpr const char* kElementwise =
      "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float> >";
};

inline std::pair<RankTrace, std::unique_ptr<StringPool>> BuildScenarioRank(int32_t rank,
                                                                           bool synthetic) {
  RankInfo info;
  info.rank = rank;
  info.world_size = 2;
  info.source = "scenario";
  info.synthetic = synthetic;
  RankTraceBuilder b(info);
  const LaneIndex thread = b.AddLane(Lane::Kind::kCpuThread, 100);
  const LaneIndex compute = b.AddLane(Lane::Kind::kStream, 7);
  const LaneIndex comm = b.AddLane(Lane::Kind::kStream, 20);
  const auto add = [&](NodeKind kind, int detail, const char* name, LaneIndex lane, int64_t start,
                       int64_t end) {
    RankTraceBuilder::NodeSpec spec;
    spec.kind = kind;
    spec.detail = static_cast<uint8_t>(detail);
    spec.name = name;
    spec.lane = lane;
    spec.start = Us(1000 + start);  // the recording began a millisecond into its clock
    spec.duration = Us(end - start);
    return b.AddNode(spec);
  };
  const auto launch = static_cast<int>(RuntimeCall::kLaunchKernel);
  const NodeIndex step = add(NodeKind::kAnnotation, 0, "ProfilerStep#5", thread, 0, 60);
  b.AddIteration(5, step);
  add(NodeKind::kCpuOp, 0, "aten::linear", thread, 1, 5);
  const NodeIndex l1 = add(NodeKind::kRuntimeCall, launch, "cudaLaunchKernel", thread, 2, 4);
  const NodeIndex l2 = add(NodeKind::kRuntimeCall, launch, "cudaLaunchKernel", thread, 6, 8);
  NodeIndex l3;
  if (rank == 0) l3 = add(NodeKind::kRuntimeCall, launch, "cudaLaunchKernel", thread, 8, 9);
  add(NodeKind::kRuntimeCall, static_cast<int>(RuntimeCall::kDeviceSynchronize),
      "cudaDeviceSynchronize", thread, 10, 57);
  const NodeIndex k1 = add(NodeKind::kKernel, 0, Scenario::kGemm, compute, 5, rank == 0 ? 25 : 35);
  b.SetLauncher(k1, l1);
  const NodeIndex ar = add(NodeKind::kCollective, static_cast<int>(CollectiveOp::kAllReduce),
                           "ncclKernel_AllReduce_RING_LL_Sum_float", comm, rank == 0 ? 25 : 35, 55);
  b.SetLauncher(ar, l2);
  CommAttr attr;
  attr.group = b.Intern("world");
  attr.bytes_in = Bytes(1000);
  attr.bytes_out = Bytes(2000);
  b.SetComm(ar, attr);
  if (rank == 0) {
    b.SetLauncher(add(NodeKind::kKernel, 0, Scenario::kElementwise, compute, 26, 46), l3);
  }
  auto result = b.Build({});
  FORETRACE_CHECK(result.ok());
  return {std::move(result->trace), std::move(result->strings)};
}

inline Scenario::Nodes FindScenarioNodes(const TraceStore& store, const RankTrace& rank) {
  Scenario::Nodes nodes;
  std::vector<NodeIndex> launches;
  for (uint32_t i = 0; i < rank.size(); ++i) {
    const NodeIndex n(i);
    const std::string_view name = store.name(rank, n);
    if (name == "ProfilerStep#5") nodes.step = n;
    if (name == "aten::linear") nodes.linear = n;
    if (name == "cudaLaunchKernel") launches.push_back(n);
    if (name == "cudaDeviceSynchronize") nodes.sync = n;
    if (name == Scenario::kGemm) nodes.k1 = n;
    if (name == Scenario::kElementwise) nodes.k2 = n;
    if (rank.kind(n) == NodeKind::kCollective) nodes.all_reduce = n;
  }
  nodes.launch_k1 = launches.at(0);
  nodes.launch_ar = launches.at(1);
  if (launches.size() > 2) nodes.launch_k2 = launches.at(2);
  return nodes;
}

inline void TellScenario(Scenario& s) {
  for (RankIndex r = 0; r < 2; ++r) {
    const Scenario::Nodes& n = s.nodes[r];
    const RankTrace& rank = s.store->ranks()[r];
    const auto tell = [&](NodeIndex node, int64_t start, int64_t active, int64_t end,
                          WaitCause cause, NodeIndex binding, WaitCause end_cause = {},
                          NodeRef end_binding = {}) {
      NodeEvent e;
      e.node = {r, node};
      e.lane = rank.lane(node);
      e.start = Us(start);
      e.active_start = Us(active);
      e.end = Us(end);
      e.source = IsCommunicationKind(rank.kind(node)) ? EstimateSource::kCalibrated
                                                      : EstimateSource::kRecorded;
      e.cause = cause;
      e.binding = {r, binding};
      e.end_cause = end_cause;
      e.end_binding = end_binding;
      if (node == n.all_reduce) e.rendezvous = 0;
      s.table->OnNode(e);
    };
    const int64_t k1_end = r == 0 ? 25 : 35;
    tell(n.launch_k1, 2, 2, 4, WaitCause::kNone, {});
    tell(n.launch_ar, 6, 6, 8, WaitCause::kProgramOrder, n.launch_k1);
    if (r == 0) tell(n.launch_k2, 8, 8, 9, WaitCause::kProgramOrder, n.launch_ar);
    tell(n.sync, 10, 10, 57, WaitCause::kProgramOrder, r == 0 ? n.launch_k2 : n.launch_ar,
         WaitCause::kCpuBlock, {r, n.all_reduce});
    tell(n.k1, 5, 5, k1_end, WaitCause::kLaunch, n.launch_k1);
    if (r == 0) tell(n.k2, 26, 26, 46, WaitCause::kProgramOrder, n.k1);
    tell(n.all_reduce, k1_end, 35, 55, WaitCause::kDependency, n.k1,
         r == 0 ? WaitCause::kCollectiveArrival : WaitCause::kNone,
         r == 0 ? NodeRef{1, s.nodes[1].all_reduce} : NodeRef{});
  }
}

inline Scenario MakeScenario(bool synthetic = false) {
  Scenario s;
  std::vector<std::pair<RankTrace, std::unique_ptr<StringPool>>> ranks;
  for (int32_t r = 0; r < 2; ++r) ranks.push_back(BuildScenarioRank(r, synthetic));
  auto store = TraceStore::Assemble(std::move(ranks), {});
  FORETRACE_CHECK(store.ok());
  s.store = std::make_unique<TraceStore>(*std::move(store));
  for (const RankTrace& rank : s.store->ranks()) {
    s.nodes.push_back(FindScenarioNodes(*s.store, rank));
    // The store moves all ranks to a common clock of its own.
    const NodeIndex step = s.nodes.back().step;
    s.windows.push_back({5, Us(0), Us(60), rank.start(step), rank.end(step)});
  }
  s.table = std::make_unique<EventTable>(*s.store);
  TellScenario(s);
  return s;
}

}  // namespace foretrace
