#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "tests/support/launched_calls.h"

namespace foretrace {
namespace {

// A layer as Llama 3 8B has it: 8,192 tokens of 4,096, 32 heads of 128, of which 8 have keys and
// values, 14,336 between.
constexpr int64_t kTokens = 8192, kWidth = 4096, kKeys = 1024, kInner = 14336;
constexpr int64_t kSquare = kWidth * kWidth, kOfKeys = kKeys * kWidth, kOfInner = kInner * kWidth;
constexpr std::string_view kForward = "nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_TNT";
constexpr std::string_view kOfInput = "nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_NNT";
constexpr std::string_view kProduct =
    "void vectorized_elementwise_kernel<8, BinaryFunctor<c10::BFloat16>, std::array<char*, 3ul> >";
// Two complex elements a thread.
constexpr std::string_view kTurn =
    "void elementwise_kernel<128, 2, BinaryFunctor<c10::complex<float>, "
    "MulFunctor<c10::complex<float> > > >";
constexpr std::string_view kFused = "cudnn_generated_fort_native_sdpa_sm90_flash_";

std::vector<int64_t> Weights() {
  return {kWidth, kWidth, kSquare, kSquare, kOfKeys, kOfKeys, kOfInner, kOfInner, kOfInner};
}

LaunchAttr Turns(int64_t columns) {
  return {{static_cast<uint32_t>(kTokens * columns / 2 / 256), 1, 1}, {128, 1, 1}};
}

// The calls of the layer's GEMMs are within `around`.
void AddLayer(LaunchedCalls& calls, const std::vector<std::string>& around = {}) {
  const auto gemm = [&] { calls.Within(around, "aten::mm", kForward, kPersistent); };
  calls.Norm(kTokens);
  for (int projection = 0; projection < 3; ++projection) gemm();
  for (const int64_t columns : {kWidth, kKeys}) {
    calls.Moves(kCast, kTokens * columns).Add("aten::mul", kTurn, Turns(columns));
  }
  calls.Moves(kProduct, kTokens * kWidth);  // keys of eight heads for all of them
  calls.Add("aten::_cudnn_attention_forward",
            std::string(kFused) + "fprop_wgmma_f16_knob_7_64x128x128_4x1x1", kPersistent);
  gemm();
  calls.Moves(kProduct, kTokens * kWidth).Norm(kTokens);
  gemm();
  calls.Moves(kCast, kTokens * kInner);
  gemm();
  calls.Moves(kProduct, kTokens * kInner);
  gemm();
  calls.Moves(kProduct, kTokens * kWidth);
}

void AddGradientsOfAttention(LaunchedCalls& calls) {
  calls.Add("aten::_cudnn_attention_backward",
            "void cudnn::fusion::compute_dot_do_o_specialized<true, 128>",
            {{kTokens / 8, 1, 32}, {128, 1, 1}});
}

// Queries are as wide as all heads; keys by what turns them, values as keys; what attention gives
// is the input of the next; the gated layer's by what is moved beside them; each times 4,096 is a
// weight.
TEST(GatheredLayers, EachHasAWeightOfThose) {
  LaunchedCalls calls;
  calls.Gathers(Weights());
  AddLayer(calls);
  AddGradientsOfAttention(calls);
  const auto found = calls.Inferred("aten::mm");
  ASSERT_EQ(found.size(), 7u);
  ExpectLinear(found[0], kTokens, kWidth, kWidth);
  ExpectLinear(found[1], kTokens, kKeys, kWidth);
  ExpectLinear(found[2], kTokens, kKeys, kWidth);
  ExpectLinear(found[3], kTokens, kWidth, kWidth);
  ExpectLinear(found[4], kTokens, kInner, kWidth);
  ExpectLinear(found[5], kTokens, kInner, kWidth);
  ExpectLinear(found[6], kTokens, kWidth, kInner);
}

// A checkpoint computes the first two layers of three again; then come all of their gradients, the
// last layer's first: 4,096 of 14,336, whose input's gradient is as wide as its input.
TEST(GatheredLayers, WhatIsComputedAgainHasItsGradientsOnce) {
  LaunchedCalls calls;
  calls.Gathers(Weights());
  AddLayer(calls);
  calls.Norm(kTokens).Moves(kCast, kTokens * kWidth);
  calls.Within({"MulBackward0", "aten::linear"}, "aten::mm", kForward, kPersistent);
  calls.Moves(kCast, kTokens * kInner);
  calls.Within({"MmBackward0"}, "aten::mm", kOfInput, kPersistent);
  AddGradientsOfAttention(calls);
  const auto found = calls.Inferred("aten::mm");
  ASSERT_EQ(found.size(), 9u);
  ExpectLinear(found[7], kTokens, kInner, kWidth);
  ExpectLinear(found[8], kTokens, kInner, kWidth);  // of w2: 4,096 wide, reduced over
}

// Turned heads and a loss of each token: a model that says the next one. Without a loss, or where
// it is of fewer, nothing says so.
TEST(GatheredLayers, AttentionOfModelsThatSayTheNextTokenIsCausal) {
  for (const auto& [rows, causal] : {std::pair(kTokens, true), std::pair(kTokens / 3, false)}) {
    LaunchedCalls calls;
    AddLayer(calls);
    calls.Add("aten::_log_softmax", "cunn_SoftMaxForward<4, float, LogSoftMaxForwardEpilogue>",
              {{static_cast<uint32_t>(rows), 1, 1}, {1024, 1, 1}});
    AddGradientsOfAttention(calls);
    const auto found = calls.Inferred("aten::_cudnn_attention_forward");
    ASSERT_EQ(found.size(), 1u);
    ExpectAttention(found[0], 1, 32, kTokens, 128);
    EXPECT_EQ(std::get<AttentionOp>(found[0].shape).causal, causal);
  }
}

// Right behind attention's gradients: of 32 heads to eight, four each. A block of 128 threads has
// 512 results.
TEST(GatheredLayers, GradientsOfSharedHeadsAreAddedUp) {
  constexpr std::string_view kSum =
      "void at::native::reduce_kernel<128, 4, at::native::ReduceOp<c10::BFloat16, sum_functor>";
  LaunchedCalls calls;
  AddLayer(calls);
  AddGradientsOfAttention(calls);
  calls.Then(std::string(kFused) + "bprop_wgmma_f16_knob_26_64x64x128_1x4x1", kPersistent);
  calls.Add("aten::sum", kSum, {{kTokens * kKeys / 512, 1, 1}, {32, 4, 1}});
  const auto found = calls.Inferred("aten::sum");
  ASSERT_EQ(found.size(), 1u);
  const auto& op = std::get<ReductionOp>(found[0].shape);
  EXPECT_EQ(op.rows, kTokens * kKeys);
  EXPECT_EQ(op.cols, 4);
  EXPECT_TRUE(op.across_rows);
}

// A tensor of 8,192 x 128,256 is passed over in two halves by one call: 4 bytes each are more than
// 2^31 together.
TEST(GatheredLayers, PartsOfATensorAreOneOperator) {
  constexpr int64_t kHalf = 4096 * 128256;
  const LaunchAttr half = {{static_cast<uint32_t>(kHalf / 1024), 1, 1}, {128, 1, 1}};
  LaunchedCalls calls;
  calls.Add("aten::copy_", kCast, half).Again(kCast, half);
  const auto found = calls.Inferred("aten::copy_");
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(std::get<ElementwiseOp>(found[0].shape).elements, 2 * kHalf);
}

// 8,192 x 4,096 values are half as many complex elements of eight bytes.
TEST(GatheredLayers, ComplexElementsAreTwoValues) {
  LaunchedCalls calls;
  calls.Add("aten::mul", kTurn, Turns(kWidth));
  const auto found = calls.Inferred("aten::mul");
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(std::get<ElementwiseOp>(found[0].shape).elements, kTokens * kWidth / 2);
  EXPECT_EQ(found[0].dtype, DType::kComplex64);
}

}  // namespace
}  // namespace foretrace
