#include "simulator/planning/traced_layers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/planning/recording_script.h"

namespace foretrace {
namespace {

// x [2, 4] W [4, 8] -> relu -> W [8, 3], and a backward call, which is derived instead.
TraceStore TwoProducts() {
  Recording r;
  r.Step(0, 100);
  r.Op("aten::mm", 10, 20, 22, 30, {{1, {2, 4}}, {2, {4, 8}}}, {3, {2, 8}});
  r.Op("aten::relu", 20, 30, 32, 34, {{3, {2, 8}}}, {4, {2, 8}});
  r.Op("aten::mm", 30, 40, 42, 50, {{4, {2, 8}}, {5, {8, 3}}}, {6, {2, 3}});
  r.Node(NodeKind::kCpuOp, 0, "MmBackward0", LaneIndex(0), 41, 60);
  r.Op("aten::mm", 42, 50, 52, 60, {{6, {2, 3}}, {5, {3, 8}}}, {7, {2, 8}});
  r.Synchronize(70, 80);
  return r.Store();
}

TEST(TracedLayers, ForwardAndDerivedBackward) {
  const auto model = LayersOfRecording(TwoProducts(), 2, 2);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->micro_batch, 2);
  ASSERT_EQ(model->chain.size(), 1U);
  const LayerSlice& layer = model->kinds[0];
  // The first product and relu are one fused operator, then the second product.
  ASSERT_EQ(layer.forward.ops.size(), 2U);
  EXPECT_EQ(layer.forward.ops[0].core, CoreClass::kFused);
  EXPECT_EQ(layer.forward.ops[1].gemm, (Gemm{1, 2, 3, 8}));
  int64_t forward = 0, backward = 0;
  for (const LayerOp& op : layer.forward.ops) forward += op.gemm.m * op.gemm.n * op.gemm.k;
  for (const LayerOp& op : layer.backward.ops) backward += op.gemm.m * op.gemm.n * op.gemm.k;
  EXPECT_EQ(forward, 2 * 8 * 4 + 2 * 3 * 8);
  EXPECT_EQ(backward, 2 * forward);
  EXPECT_EQ(model->product_flop.count(), 2.0 * static_cast<double>(forward));
  // 4 x 8 and 8 x 3 weights, 2 x 8 twice and 2 x 3 results, of 4 bytes.
  EXPECT_EQ(layer.parameters.count(), (32 + 24) * 4);
  EXPECT_EQ(layer.activations.count(), (16 + 16 + 6) * 4);
}

// Six samples instead of two: rows of products and elements three times, weights as they were. One
// and a half are no number of rows.
TEST(TracedLayers, OtherMicroBatches) {
  const auto two = LayersOfRecording(TwoProducts(), 2, 2),
             six = LayersOfRecording(TwoProducts(), 2, 6);
  ASSERT_TRUE(two.ok() && six.ok()) << six.status();
  EXPECT_EQ(six->micro_batch, 6);
  EXPECT_EQ(six->chain, two->chain);
  const LayerSlice &a = two->kinds[0], &b = six->kinds[0];
  EXPECT_EQ(b.forward.ops[1].gemm, (Gemm{1, 6, 3, 8}));
  EXPECT_EQ(b.forward.ops[0].elements, 3 * a.forward.ops[0].elements);
  EXPECT_EQ(b.parameters, a.parameters);
  EXPECT_EQ(b.activations.count(), 3 * a.activations.count());
  EXPECT_EQ(six->product_flop.count(), 3 * two->product_flop.count());
  EXPECT_EQ(LayersOfRecording(TwoProducts(), 4, 3).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

// Forty alike, each read by the next: layers end where one tensor passes, and are of few kinds.
TEST(TracedLayers, LikeLayersAreOneKind) {
  Recording r;
  r.Step(0, 2000);
  double at = 10;
  for (int64_t i = 0; i < 40; ++i) {
    r.Op("aten::mm", at, at + 10, at + 12, at + 15, {{i + 1, {2, 4}}, {100 + i, {4, 4}}},
         {i + 2, {2, 4}});
    at += 10;
  }
  r.Synchronize(1000, 1010);
  const auto model = LayersOfRecording(r.Store(), 1, 1);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->chain.size(), 8U);  // five operators each
  EXPECT_LE(model->kinds.size(), 2U);  // the first has no input from a layer before
}

}  // namespace
}  // namespace foretrace
