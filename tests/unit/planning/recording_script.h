#pragma once
// Writes small recordings of one rank by hand, with tensors.

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "simulator/trace/builder.h"

namespace foretrace {

inline SimTime Us(double us) { return SimTime::FromUs(us); }

// One rank: operators on a thread, each with one launch of a kernel.
class Recording {
 public:
  Recording() : builder_(Info()) {
    cpu_ = builder_.AddLane(Lane::Kind::kCpuThread, 1);
    stream_ = builder_.AddLane(Lane::Kind::kStream, 7);
  }

  struct Arg {
    int64_t storage;
    std::vector<int64_t> dims;
  };
  NodeIndex Node(NodeKind kind, uint8_t detail, const std::string& name, LaneIndex lane,
                 double from, double to) {
    RankTraceBuilder::NodeSpec spec;
    spec.kind = kind;
    spec.detail = detail;
    spec.name = name;
    spec.lane = lane;
    spec.start = Us(from);
    spec.duration = Us(to - from);
    spec.source_id = ++id_;
    return builder_.AddNode(spec);
  }
  // The operator spans [from, to), its launch the two us before `to`.
  void Op(const std::string& name, double from, double to, double kernel_from, double kernel_to,
          const std::vector<Arg>& in, const Arg& out) {
    const NodeIndex op = Node(NodeKind::kCpuOp, 0, name, cpu_, from, to);
    for (const Arg& a : in) Add(op, a, false);
    Add(op, out, true);
    const NodeIndex launch =
        Node(NodeKind::kRuntimeCall, static_cast<uint8_t>(RuntimeCall::kLaunchKernel),
             "cudaLaunchKernel", cpu_, to - 2, to);
    builder_.SetLauncher(
        Node(NodeKind::kKernel, 0, name + " kernel", stream_, kernel_from, kernel_to), launch);
  }
  void Step(double from, double to) {
    builder_.AddIteration(1, Node(NodeKind::kAnnotation, 0, "ProfilerStep#1", cpu_, from, to));
  }
  void Synchronize(double from, double to) {
    Node(NodeKind::kRuntimeCall, static_cast<uint8_t>(RuntimeCall::kDeviceSynchronize),
         "cudaDeviceSynchronize", cpu_, from, to);
  }
  TraceStore Store() {
    auto result = builder_.Build({});
    EXPECT_TRUE(result.ok()) << result.status();
    std::vector<std::pair<RankTrace, std::unique_ptr<StringPool>>> ranks;
    ranks.emplace_back(std::move(result->trace), std::move(result->strings));
    auto store = TraceStore::Assemble(std::move(ranks), {});
    EXPECT_TRUE(store.ok()) << store.status();
    return *std::move(store);
  }

 private:
  static RankInfo Info() {
    RankInfo info;
    info.source = "recording";
    return info;
  }
  void Add(NodeIndex op, const Arg& a, bool output) {
    Tensor t;
    t.id = ++tensor_;
    t.storage = a.storage;
    t.dtype = DType::kFloat32;
    t.is_output = output;
    builder_.AddTensor(op, t, a.dims);
  }
  RankTraceBuilder builder_;
  LaneIndex cpu_, stream_;
  uint64_t id_ = 0;
  int64_t tensor_ = 0;
};

}  // namespace foretrace
