#include "simulator/planning/traced_placement.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "simulator/planning/traced_regions.h"
#include "simulator/trace/builder.h"

namespace foretrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

SimTime Us(double us) { return SimTime::FromUs(us); }

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

// x [2, 4] W [4, 8] on 20 us, relu on 10 us right behind; the device is done at 50, the CPU at 52.
TraceStore TwoKernels(bool read_twice = false) {
  Recording r;
  r.Step(0, 60);
  r.Op("aten::mm", 10, 20, 22, 42, {{1, {2, 4}}, {2, {4, 8}}}, {3, {2, 8}});
  r.Op("aten::relu", 20, 30, 42, 52, {{3, {2, 8}}}, {4, {2, 8}});
  if (read_twice) r.Op("aten::tanh", 30, 40, 52, 57, {{3, {2, 8}}}, {5, {2, 8}});
  r.Synchronize(45, 58);
  return r.Store();
}

Backend Fusing() {
  auto backend = ParseBackend(
      "name: fusing\nsource: s\nkind: compiler\ndevice: cuda\n"
      "rule: {classes: {fusable: [dense], elementwise: [relu, tanh]}, fuses: {fusable: "
      "[elementwise]}}\n",
      "b.yaml");
  EXPECT_TRUE(backend.ok()) << backend.status();
  return *backend;
}

TracedPlacementSetup SetupOf(double fused_us) {
  TracedPlacementSetup setup;
  setup.backends = {Fusing()};
  EXPECT_TRUE(setup.costs
                  .Parse(fmt::format("op,shape,time_us,backend\n\"relu(dense(*,*))\",data=2x4,{},"
                                     "fusing\n",
                                     fused_us),
                         "c.csv")
                  .ok());
  setup.launch = SimTime();
  return setup;
}

TEST(TracedRegions, OperatorsWithTheirKernelsAndProducers) {
  const TraceStore store = TwoKernels();
  const TracedRegions regions = RegionsOf(store, store.ranks()[0], 1);
  ASSERT_EQ(regions.dag.size(), 2);
  EXPECT_EQ(regions.dag.op(0).type, "dense");
  EXPECT_EQ(regions.dag.op(0).shape, "2x4");
  EXPECT_THAT(regions.dag.op(1).inputs, ElementsAre(0));
  EXPECT_THAT(regions.recorded, ElementsAre(Us(20), Us(10)));
  EXPECT_TRUE(regions.by_storage);
}

// 30 us of two kernels become 12 of one, with one launch less.
TEST(TracedPlacement, AFusedKernelShortensTheStep) {
  const auto placed = PlaceTraces(TwoKernels(), SetupOf(12));
  ASSERT_TRUE(placed.ok()) << placed.status();
  EXPECT_EQ(placed->kernels, 2);
  EXPECT_EQ(placed->kernels_gone, 1);
  EXPECT_EQ(placed->replaced, Us(30));
  EXPECT_EQ(placed->replacement, Us(12));
  // From the begin of the step to the first launch 18 us, and its own 2.
  EXPECT_EQ(placed->cpu_saved, Us(20));
  ASSERT_EQ(placed->regions.size(), 1U);
  EXPECT_EQ(placed->regions[0].types, "dense+relu");
  EXPECT_GE(placed->step_before - placed->step_after, Us(18));
}

TEST(TracedPlacement, ASlowerBackendChangesNothing) {
  const auto placed = PlaceTraces(TwoKernels(), SetupOf(31));
  ASSERT_TRUE(placed.ok()) << placed.status();
  EXPECT_TRUE(placed->regions.empty());
  EXPECT_EQ(placed->step_before, placed->step_after);
}

// A result that another operator reads too would not be written by the fused kernel.
TEST(TracedPlacement, WhatIsReadTwiceIsNotFused) {
  const auto placed = PlaceTraces(TwoKernels(true), SetupOf(12));
  ASSERT_TRUE(placed.ok()) << placed.status();
  EXPECT_EQ(placed->kernels_gone, 0);
}

// Work of autograd makes it a training step, in which an inference engine has no part.
TEST(TracedPlacement, InferenceEnginesDoNotTrain) {
  Recording r;
  r.Step(0, 60);
  r.Op("aten::mm", 10, 20, 22, 42, {{1, {2, 4}}, {2, {4, 8}}}, {3, {2, 8}});
  r.Op("aten::relu", 20, 30, 42, 52, {{3, {2, 8}}}, {4, {2, 8}});
  r.Node(NodeKind::kCpuOp, 0, "MmBackward0", LaneIndex(0), 31, 41);
  r.Op("aten::mm", 32, 40, 52, 57, {{4, {2, 8}}, {2, {8, 4}}}, {6, {2, 4}});
  r.Synchronize(45, 58);
  const TraceStore store = r.Store();
  TracedPlacementSetup setup = SetupOf(12);
  setup.backends[0].inference_only = true;
  const auto placed = PlaceTraces(store, setup);
  ASSERT_TRUE(placed.ok()) << placed.status();
  EXPECT_EQ(placed->kernels_gone, 0);
  EXPECT_THAT(placed->notes, ::testing::Contains(HasSubstr("inference alone")));
  setup.backends[0].inference_only = false;
  EXPECT_EQ(PlaceTraces(store, setup)->kernels_gone, 1);
}

TEST(TracedPlacement, NothingToPriceIsOneLine) {
  TracedPlacementSetup setup;
  setup.backends = {Fusing()};
  const auto placed = PlaceTraces(TwoKernels(), setup);
  EXPECT_FALSE(placed.ok());
  setup.device = "no-such-device";
  EXPECT_THAT(std::string(PlaceTraces(TwoKernels(), setup).status().message()),
              HasSubstr("no-such-device"));
}

}  // namespace
}  // namespace foretrace
