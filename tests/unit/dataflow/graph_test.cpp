// Workloads as operator graphs: what their nests compute is what kernels' expander derives from the
// same shapes, and the view that solvers read follows from the graph.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <vector>

#include "simulator/cost/operator/kernel_work.h"
#include "simulator/dataflow/workloads.h"
#include "simulator/graph/differentiate.h"

namespace foretrace::dataflow {
namespace {

TransformerSizes Sizes() { return {1024, 16, 64, 512, 4, 8, true}; }

// FLOP, and bytes that weights have, derived twice.
TEST(Graph, NestsAgreeWithTheExpander) {
  TransformerSizes routed = Sizes();
  routed.experts = 8, routed.top_k = 2;
  const std::vector<Workload> workloads = {
      MakeTransformer(Sizes()), MakeTransformer(routed), MakeDlrm({3, 3, 64, 32, 4, 2, 8, 10}),
      MakeHpl({4096, 256, 8, 4, 4}), MakeFft({1024, 1024, 32, 8})};
  for (const Workload& w : workloads) {
    EXPECT_TRUE(w.graph.graph().Validate().ok()) << w.graph.graph().Validate();
    for (OpId op = 0; static_cast<size_t>(op) < w.graph.size(); ++op) {
      const Kernel& k = w.kernels[static_cast<size_t>(op)];
      if (!k.is_gemm()) continue;
      double flop = 0;
      for (const KernelWork& work : Kernels(CallOf(w.graph, op, k.size, 1)))
        flop += work.flop.count();
      EXPECT_EQ(NestFlop(true, k.size).count(), flop) << k.name;
    }
  }
}

TEST(Graph, WeightsAreThoseOfTheGraph) {
  const Workload w = MakeTransformer(Sizes());
  const OperatorGraph& graph = w.graph.graph();
  // Forward and backward read the same twelve h^2.
  EXPECT_EQ(Parameters(graph, graph.Declared(), true), 2 * 12 * 1024 * 1024);
  double weights = 0, gradients = 0;
  for (const Kernel& k : w.kernels) {
    if (k.has_weights() && k.pass == Direction::kForward) weights += WeightElements(k.size);
    if (k.weight_gradient) gradients += ResultElements(k.size);
  }
  EXPECT_EQ(weights, 12.0 * 1024 * 1024);
  EXPECT_EQ(gradients, weights);
}

TEST(Graph, ForwardAloneIsTheForwardGraph) {
  TransformerSizes inference = Sizes();
  inference.train = false;
  const Workload cut = ForwardOf(MakeTransformer(Sizes())), whole = MakeTransformer(inference);
  ASSERT_EQ(cut.kernels.size(), whole.kernels.size());
  for (size_t i = 0; i < cut.kernels.size(); ++i) {
    EXPECT_EQ(cut.kernels[i].name, whole.kernels[i].name);
    EXPECT_EQ(cut.kernels[i].size, whole.kernels[i].size);
    EXPECT_EQ(cut.kernels[i].label, whole.kernels[i].label);
  }
  ASSERT_EQ(cut.tensors.size(), whole.tensors.size());
  for (size_t i = 0; i < cut.tensors.size(); ++i)
    EXPECT_EQ(cut.tensors[i].renamed, whole.tensors[i].renamed);
  EXPECT_EQ(cut.next_layer.size(), 1U);
  EXPECT_FALSE(cut.trains());
  // What is moved and cached stays.
  TransformerSizes decode = inference;
  decode.sequence = 1, decode.keys = 100;
  const Workload step = MakeTransformer(decode), again = ForwardOf(step);
  double cached = 0;
  for (size_t i = 0; i < step.kernels.size(); ++i) {
    EXPECT_EQ(again.kernels[i].stored_bytes.count(), step.kernels[i].stored_bytes.count());
    EXPECT_EQ(again.kernels[i].stored_lacks, step.kernels[i].stored_lacks);
    cached += step.kernels[i].stored_bytes.count();
  }
  EXPECT_EQ(cached, 2.0 * 1024 * 99 * 2);
  const Workload fft = ForwardOf(MakeFft({1024, 1024, 32, 8}));
  EXPECT_EQ(fft.kernels[1].alltoall_bytes.count(), 1024.0 * 128 * 2);
}

TEST(Graph, OrderOfNodes) {
  using Edges = std::vector<std::pair<int, int>>;
  EXPECT_EQ(TopologicalOrder(4, Edges{{0, 1}, {1, 2}, {0, 3}}), (std::vector<int>{0, 1, 2, 3}));
  EXPECT_EQ(TopologicalOrder(3, Edges{{2, 0}, {2, 1}}), (std::vector<int>{2, 0, 1}));
  EXPECT_EQ(TopologicalOrder(4, Edges{{1, 2}, {2, 1}, {2, 3}}), (std::vector<int>{0}));
}

}  // namespace
}  // namespace foretrace::dataflow
