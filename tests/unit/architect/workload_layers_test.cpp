#include "simulator/architect/workload_layers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "simulator/architect/evaluate.h"
#include "simulator/workload/multi_branch.h"
#include "simulator/workload/workload_yaml.h"

namespace foretrace {
namespace {

// x [2, 4] W [4, 8] -> relu -> W [8, 3], of two samples; kept are results.
constexpr const char* kTwoGemms = R"(
name: two
graph:
  dtype: float32
  call_samples: 2
  operators:
    - {name: first, parameters: 32, stash_bytes: 32, output_bytes: 32, calls: [{linear: {m: 2, n: 8, k: 4}}]}
    - {name: relu, function: relu, stash_bytes: 32, output_bytes: 32, calls: [{elementwise: {elements: 16, read_elements: 16}}]}
    - {name: second, parameters: 24, stash_bytes: 12, output_bytes: 12, calls: [{linear: {m: 2, n: 3, k: 8}}]}
  edges: [[first, relu], [relu, second]]
)";

Workload TwoGemms() {
  auto w = ParseWorkload(kTwoGemms, "two.yaml");
  EXPECT_TRUE(w.ok()) << w.status();
  return *std::move(w);
}

TEST(WorkloadLayers, ForwardAndDerivedBackward) {
  const auto model = SliceWorkload(TwoGemms(), 1, 2);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->micro_batch, 2);
  ASSERT_EQ(model->chain.size(), 1U);
  const LayerSlice& layer = model->kinds[0];
  // The first GEMM and relu are one fused operator, then the second GEMM.
  ASSERT_EQ(layer.forward.ops.size(), 2U);
  EXPECT_EQ(layer.forward.ops[0].core, CoreClass::kFused);
  EXPECT_EQ(layer.forward.ops[1].gemm, (Gemm{1, 2, 3, 8}));
  int64_t forward = 0, backward = 0;
  for (const LayerOp& op : layer.forward.ops) forward += op.gemm.m * op.gemm.n * op.gemm.k;
  for (const LayerOp& op : layer.backward.ops) backward += op.gemm.m * op.gemm.n * op.gemm.k;
  EXPECT_EQ(forward, 2 * 8 * 4 + 2 * 3 * 8);
  EXPECT_EQ(backward, 2 * forward);
  EXPECT_EQ(model->gemm_flop.count(), 2.0 * static_cast<double>(forward));
  // 4 x 8 and 8 x 3 weights, 2 x 8 twice and 2 x 3 results, of 4 bytes.
  EXPECT_EQ(layer.parameters.count(), (32 + 24) * 4);
  EXPECT_EQ(layer.activations.count(), (16 + 16 + 6) * 4);
}

// Six samples instead of two: rows of GEMMs and elements three times, weights as they were. One
// and a half are no number of rows.
TEST(WorkloadLayers, OtherMicroBatches) {
  Workload w = TwoGemms();
  const auto two = SliceWorkload(w, 1, 2), six = SliceWorkload(w, 1, 6);
  ASSERT_TRUE(two.ok() && six.ok()) << six.status();
  EXPECT_EQ(six->micro_batch, 6);
  EXPECT_EQ(six->chain, two->chain);
  const LayerSlice &a = two->kinds[0], &b = six->kinds[0];
  EXPECT_EQ(b.forward.ops[1].gemm, (Gemm{1, 6, 3, 8}));
  EXPECT_EQ(b.forward.ops[0].elements, 3 * a.forward.ops[0].elements);
  EXPECT_EQ(b.parameters, a.parameters);
  EXPECT_EQ(b.activations.count(), 3 * a.activations.count());
  EXPECT_EQ(six->gemm_flop.count(), 3 * two->gemm_flop.count());
  w.call_samples = 4;
  EXPECT_EQ(SliceWorkload(w, 1, 3).status().code(), absl::StatusCode::kFailedPrecondition);
}

// Four devices: columns of the first weight, rows of the second, and a sum of the result. The input
// has no gradient.
TEST(WorkloadLayers, TensorParallelWidths) {
  const auto four = SliceWorkload(TwoGemms(), 4, 2);
  ASSERT_TRUE(four.ok()) << four.status();
  const LayerSlice& layer = four->kinds[0];
  ASSERT_EQ(layer.forward.ops.size(), 3U);
  EXPECT_EQ(layer.forward.ops[0].gemm, (Gemm{1, 2, 2, 4}));
  EXPECT_EQ(layer.forward.ops[1].gemm, (Gemm{1, 2, 3, 2}));
  EXPECT_EQ(layer.forward.ops[2].collective, Bytes(2 * 3 * 4));
  for (const LayerOp& op : layer.backward.ops) EXPECT_EQ(op.collective, Bytes());
  EXPECT_EQ(layer.parameters.count(), (32 + 24) / 4 * 4);
  // The sum is whole on every device.
  EXPECT_EQ(layer.activations.count(), (16 + 16) / 4 * 4 + 6 * 4);
  EXPECT_EQ(four->gemm_flop, SliceWorkload(TwoGemms(), 1, 2)->gemm_flop);
  const auto three = SliceWorkload(TwoGemms(), 3, 2);
  EXPECT_EQ(three.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(three.status().message()), testing::HasSubstr("width 3 divides none"));
}

double Gemms(const LayerWork& work) {
  double macs = 0;
  for (const LayerOp& op : work.ops) {
    macs += static_cast<double>(op.gemm.batch) * static_cast<double>(op.gemm.m) *
            static_cast<double>(op.gemm.n) * static_cast<double>(op.gemm.k);
  }
  return macs;
}
int64_t Summed(const LayerWork& work) {
  int64_t bytes = 0;
  for (const LayerOp& op : work.ops) bytes += op.collective.count();
  return bytes;
}

// A transformer's block written as operators on shapes is what the model's own graph is divided
// into: GEMMs, parameters and sums at every width.
TEST(WorkloadLayers, EqualToTheTransformersGraph) {
  TransformerConfig c;
  c.hidden = 64;
  c.heads = 8;
  c.layers = 1;
  c.sequence = 16;
  c.vocabulary = 128;
  c = WithDefaults(c);
  const auto w = ParseWorkload(R"(
graph:
  operators:
    - {name: in, output_bytes: 2048, calls: [{layer_norm: {rows: 16, cols: 64}, dtype: float16}]}
    - {name: qkv, parameters: 12480, output_bytes: 6144, calls: [{linear: {m: 16, n: 192, k: 64}, dtype: float16}]}
    - {name: scores, output_bytes: 4096, calls: [{batched_matmul: {b: 8, m: 16, n: 16, k: 8}, dtype: float16}]}
    - {name: softmax, output_bytes: 4096, calls: [{softmax: {rows: 128, cols: 16}, dtype: float16}]}
    - {name: context, output_bytes: 2048, calls: [{batched_matmul: {b: 8, m: 16, n: 8, k: 16}, dtype: float16}]}
    - {name: projection, parameters: 4160, output_bytes: 2048, calls: [{linear: {m: 16, n: 64, k: 64}, dtype: float16}]}
    - {name: norm, output_bytes: 2048, calls: [{layer_norm: {rows: 16, cols: 64}, dtype: float16}]}
    - {name: up, parameters: 16640, output_bytes: 8192, calls: [{linear: {m: 16, n: 256, k: 64}, dtype: float16}]}
    - {name: gelu, output_bytes: 8192, function: gelu, calls: [{elementwise: {elements: 4096, read_elements: 4096}, dtype: float16}]}
    - {name: down, parameters: 16448, output_bytes: 2048, calls: [{linear: {m: 16, n: 64, k: 256}, dtype: float16}]}
    - {name: out, output_bytes: 2048, calls: [{layer_norm: {rows: 16, cols: 64}, dtype: float16}]}
  edges: [[in, qkv], [qkv, scores], [scores, softmax], [softmax, context], [context, projection], [projection, norm], [norm, up], [up, gelu], [gelu, down], [down, out]]
)",
                               "block.yaml");
  ASSERT_TRUE(w.ok()) << w.status();
  for (const int32_t width : {1, 2, 4, 8}) {
    const auto made = SliceModel(c, width, 1), read = SliceWorkload(*w, width, 1);
    ASSERT_TRUE(made.ok() && read.ok()) << read.status();
    const LayerSlice& block = made->kinds[1];
    double forward = 0, backward = 0;
    int64_t forward_sums = 0, backward_sums = 0;
    for (const int32_t kind : read->chain) {
      const LayerSlice& layer = read->kinds[static_cast<size_t>(kind)];
      forward += Gemms(layer.forward);
      backward += Gemms(layer.backward);
      forward_sums += Summed(layer.forward);
      backward_sums += Summed(layer.backward);
    }
    EXPECT_EQ(forward, Gemms(block.forward)) << width;
    EXPECT_EQ(backward, Gemms(block.backward)) << width;
    EXPECT_EQ(forward_sums, Summed(block.forward)) << width;
    EXPECT_EQ(backward_sums, Summed(block.backward)) << width;
  }
}

// Forty alike, each read by the next: layers end where one tensor passes, and are of few kinds.
TEST(WorkloadLayers, LikeLayersAreOneKind) {
  Workload w;
  for (int32_t i = 0; i < 40; ++i) {
    Operator op;
    op.name = fmt::format("GEMM {}", i);
    op.calls = {{LinearOp{2, 4, 4}, DType::kFloat32}};
    op.output_bytes = Bytes(32);
    w.operators.push_back(std::move(op));
    if (i > 0) w.edges.push_back({i - 1, i, Bytes(32)});
  }
  const auto model = SliceWorkload(w, 1, 1);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->chain.size(), 8U);  // five operators each
  EXPECT_LE(model->kinds.size(), 2U);  // the first has no input from a layer before
}

// Models that are no transformers, at every width that divides: a design schedules and places them.
TEST(WorkloadLayers, BuiltModelsArePlaced) {
  const auto mmt = BuildTwoBranchCaseStudy();
  DlrmConfig small;
  small.dense_branches = small.sparse_branches = small.dense_layers = 2;
  const auto dlrm = BuildDlrm(small);
  ASSERT_TRUE(mmt.ok() && dlrm.ok());
  TrainingSetup setup;
  setup.limits.max_nodes = 100;
  setup.devices = 16;
  setup.global_batch = 64;
  setup.hbm = Bytes(int64_t{32} << 30);
  setup.widths = {1, 4};
  setup.micro_batches = {1, 2};
  const auto space =
      LoadDesignSpace(std::string(FORETRACE_SOURCE_DIR) + "/topologies/spaces/phaze.yaml");
  ASSERT_TRUE(space.ok()) << space.status();
  for (const Workload* w : {&*mmt, &*dlrm}) {
    const auto model = PrepareModel(*w, setup);
    ASSERT_TRUE(model.ok()) << model.status();
    EXPECT_EQ(model->slices.size(), 4U);
    DesignEvaluator evaluator(space->machine, setup);
    evaluator.SetDesign(*space->cap_design);
    const auto plan = evaluator.Evaluate(*model);
    ASSERT_TRUE(plan.ok()) << plan.status();
    EXPECT_GT(plan->throughput, 0);
    EXPECT_LE(plan->throughput, evaluator.Bound(*model) * (1 + 1e-9));
    EXPECT_GT(plan->mfu, 0);
    EXPECT_LT(plan->mfu, 1);
  }
}

TEST(WorkloadLayers, SizesOfFilesMayBeAnything) {
  const auto sliced = [](const std::string& call) {
    const auto w =
        ParseWorkload("graph: {operators: [{name: a, calls: [" + call + "]}]}", "f.yaml");
    EXPECT_TRUE(w.ok()) << w.status();
    return SliceWorkload(*w, 1, 8);
  };
  for (const char* nothing : {"{linear: {}}", "{conv2d: {n: 1, c: 3, k: 3, groups: 0}}",
                              "{attention: {b: 1, heads: 0, sq: 8, skv: 8, d: 8}}"}) {
    const auto model = sliced(nothing);
    ASSERT_TRUE(model.ok()) << model.status();
    EXPECT_EQ(model->gemm_flop, Flop()) << nothing;
  }
  for (const char* much : {"{linear: {m: 8999999999999999, n: 8999999999999999, k: 9}}",
                           "{elementwise: {elements: 8999999999999999, outputs: 8999999999999999}}",
                           "{batched_matmul: {b: 8999999999999999, m: 1, n: 1, k: 1}}"}) {
    EXPECT_THAT(std::string(sliced(much).status().message()),
                testing::HasSubstr("operator 'a' is too large"))
        << much;
  }
}

TEST(WorkloadLayers, OperatorsWithoutAClassAreNamed) {
  const auto w = ParseWorkload("graph: {operators: [{name: a, forward_flop: 1}]}", "f.yaml");
  ASSERT_TRUE(w.ok());
  const absl::Status status = SliceWorkload(*w, 1, 1).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("operator 'a' has no class"));
}

}  // namespace
}  // namespace foretrace
