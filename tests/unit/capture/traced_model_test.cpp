#include "simulator/capture/traced_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "simulator/capture/traced_calls.h"
#include "simulator/trace/builder.h"
#include "simulator/workload/workload_yaml.h"

namespace foretrace {
namespace {

using ::testing::HasSubstr;

// Writes calls of one thread as an execution trace would hold them: without times.
class Script {
 public:
  Script() : builder_(Info()), lane_(builder_.AddLane(Lane::Kind::kCpuThread, 1)) {}

  struct Arg {
    int64_t storage;
    std::vector<int64_t> dims;
  };
  NodeIndex Call(const std::string& name, const std::vector<Arg>& in, const std::vector<Arg>& out,
                 NodeIndex parent = NodeIndex()) {
    RankTraceBuilder::NodeSpec spec;
    spec.name = name;
    spec.lane = lane_;
    spec.source_id = ++id_;
    const NodeIndex n = builder_.AddNode(spec);
    if (parent.valid()) builder_.SetParent(n, parent);
    for (const bool output : {false, true}) {
      for (const Arg& a : output ? out : in) {
        Tensor t;
        t.id = ++tensor_;
        t.storage = a.storage;
        t.dtype = DType::kFloat32;
        t.is_output = output;
        builder_.AddTensor(n, t, a.dims);
      }
    }
    return n;
  }
  TraceStore Store() {
    RankTraceBuilder::Options options;
    options.sort_by_start = false;
    options.infer_nesting = false;
    auto result = builder_.Build(options);
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
    info.has_times = false;
    info.source = "script";
    return info;
  }
  RankTraceBuilder builder_;
  LaneIndex lane_;
  uint64_t id_ = 0;
  int64_t tensor_ = 0;
};

// x -> addmm(w1) -> relu -> addmm(w2), with a view between, two samples; then backward, and an
// update that reads the weights. Storages: x 1, w1 2, b1 3, hidden 4, relu 5, w2 6, b2 7, result 8.
TraceStore TwoLayers(bool second_iteration) {
  Script s;
  for (int64_t i = 0; i < (second_iteration ? 2 : 1); ++i) {
    s.Call("aten::addmm", {{3, {8}}, {1, {2, 4}}, {2, {4, 8}}}, {{4, {2, 8}}});
    const NodeIndex relu = s.Call("aten::relu", {{4, {2, 8}}}, {{5, {2, 8}}});
    s.Call("aten::clamp_min", {{4, {2, 8}}}, {{5, {2, 8}}}, relu);
    s.Call("aten::view", {{5, {2, 8}}}, {{5, {2, 8}}});
    s.Call("aten::addmm", {{7, {3}}, {5, {2, 8}}, {6, {8, 3}}}, {{8, {2, 3}}});
    const auto evaluate = [&](const std::string& name, const std::vector<Script::Arg>& in) {
      const NodeIndex around = s.Call("autograd::engine::evaluate_function: " + name, {}, {});
      return s.Call(name, in, {}, around);
    };
    const auto accumulate = [&](int64_t storage, std::vector<int64_t> dims) {
      evaluate("torch::autograd::AccumulateGrad", {{storage, std::move(dims)}});
    };
    NodeIndex b = evaluate("AddmmBackward0", {{20, {2, 3}}});
    s.Call("aten::mm", {{20, {2, 3}}, {6, {3, 8}}}, {{21, {2, 8}}}, b);
    s.Call("aten::mm", {{5, {8, 2}}, {20, {2, 3}}}, {{22, {8, 3}}}, b);
    s.Call("aten::sum", {{20, {2, 3}}}, {{23, {1, 3}}}, b);
    accumulate(22, {8, 3});
    accumulate(23, {3});
    b = evaluate("ReluBackward0", {{21, {2, 8}}});
    s.Call("aten::threshold_backward", {{21, {2, 8}}, {5, {2, 8}}}, {{24, {2, 8}}}, b);
    b = evaluate("AddmmBackward0", {{24, {2, 8}}});
    s.Call("aten::mm", {{1, {4, 2}}, {24, {2, 8}}}, {{25, {4, 8}}}, b);
    s.Call("aten::sum", {{24, {2, 8}}}, {{26, {1, 8}}}, b);
    accumulate(25, {4, 8});
    accumulate(26, {8});
    const NodeIndex step = s.Call("Optimizer.step#SGD.step", {}, {});
    s.Call("aten::add_", {{2, {4, 8}}, {25, {4, 8}}}, {{2, {4, 8}}}, step);
  }
  return s.Store();
}

TEST(TracedModel, GraphOfTwoLayers) {
  TracedModelOptions options;
  options.samples = 2;
  const TraceStore store = TwoLayers(false);
  const auto model = ModelOfTrace(store, options);
  ASSERT_TRUE(model.ok()) << model.status();
  const Workload& w = model->workload;
  ASSERT_EQ(w.operators.size(), 3u);
  EXPECT_EQ(w.operators[0].name, "aten::addmm");
  EXPECT_EQ(w.operators[1].name, "aten::clamp_min");  // the innermost call
  EXPECT_EQ(w.operators[2].name, "aten::addmm #2");
  EXPECT_EQ(w.operators[0].parameters, 4 * 8 + 8);
  EXPECT_EQ(w.operators[1].parameters, 0);
  EXPECT_EQ(w.operators[2].parameters, 8 * 3 + 3);
  EXPECT_EQ(model->parameter_tensors, 4);
  EXPECT_EQ(model->backward_calls, 3);
  EXPECT_EQ(model->unmatched_calls, 0);
  // Of one of two samples: 2 x 8 x 3 GEMMs, twice in the backward pass; a bias besides.
  EXPECT_NEAR(w.operators[2].forward_flop.count(), 2 * 8 * 3, 3);
  EXPECT_NEAR(w.operators[2].backward_flop.count(), 4 * 8 * 3, 3);
  // The first layer's input has no gradient.
  EXPECT_NEAR(w.operators[0].backward_flop.count(), 2 * 4 * 8, 8);
  EXPECT_EQ(w.operators[0].output_bytes.count(), 8 * 4);
  // Through the view; the optimizer's calls are no part of it.
  ASSERT_EQ(w.edges.size(), 2u);
  EXPECT_EQ(w.edges[1].from, 1);
  EXPECT_EQ(w.edges[1].to, 2);
  EXPECT_EQ(w.edges[1].bytes.count(), 8 * 4);
}

TEST(TracedModel, WrittenAndReadBack) {
  const auto model = ModelOfTrace(TwoLayers(false), {});
  ASSERT_TRUE(model.ok()) << model.status();
  const auto read = ParseWorkload(WorkloadYaml(*model), "written");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->dtype, DType::kFloat32);
  EXPECT_EQ(read->ParameterCount(), model->workload.ParameterCount());
  EXPECT_EQ(read->edges.size(), 2u);
  EXPECT_EQ(read->ForwardFlop().count(), model->workload.ForwardFlop().count());
}

TEST(TracedModel, IterationsEndWithTheOptimizer) {
  const TraceStore store = TwoLayers(true);
  for (const int64_t iteration : {0, 1}) {
    TracedModelOptions options;
    options.iteration = iteration;
    const auto model = ModelOfTrace(store, options);
    ASSERT_TRUE(model.ok()) << model.status();
    EXPECT_EQ(model->workload.operators.size(), 3u);
    EXPECT_EQ(model->workload.ParameterCount(), 67);
  }
  TracedModelOptions third;
  third.iteration = 2;
  EXPECT_THAT(std::string(ModelOfTrace(store, third).status().message()),
              HasSubstr("no call has a known operator"));
  TracedModelOptions rank;
  rank.rank = 7;
  EXPECT_THAT(std::string(ModelOfTrace(store, rank).status().message()), HasSubstr("--rank 7"));
}

TEST(TracedModel, BaseNames) {
  EXPECT_EQ(traced::BaseName("autograd::engine::evaluate_function: AddmmBackward0"), "addmm");
  EXPECT_EQ(traced::BaseName("aten::native_layer_norm"), "nativelayernorm");
  EXPECT_EQ(traced::BaseName("NativeLayerNormBackward0"), "nativelayernorm");
  EXPECT_EQ(traced::BaseName("torch::autograd::AccumulateGrad"), traced::kAccumulateGrad);
}

}  // namespace
}  // namespace foretrace
