#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <tuple>
#include <variant>
#include <vector>

#include "tests/support/launched_calls.h"

namespace foretrace {
namespace {

// Layers of 4,096 and 14,336 columns of 8,192 tokens, as PyTorch's compiler runs Llama 3 8B's.
constexpr int64_t kTokens = 8192, kWidth = 4096, kInner = 14336, kClasses = 128256;
constexpr std::string_view kForward = "nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_TNT";
constexpr std::string_view kOfInput = "nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_NNT";
constexpr std::string_view kOfWeights = "nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_NTT";

LaunchedCalls& Generated(LaunchedCalls& calls, const std::string& name, int64_t blocks,
                         uint32_t threads) {
  return calls.Add(name, name, {{static_cast<uint32_t>(blocks), 1, 1}, {threads, 1, 1}});
}

void AddForward(LaunchedCalls& calls) {
  const auto gemm = [&] { calls.Within({"CompiledFunction"}, "aten::mm", kForward, kPersistent); };
  calls.Gathers(
      {kWidth, kWidth, kInner * kWidth, kInner * kWidth, kInner * kWidth, kClasses * kWidth});
  Generated(calls, "triton_poi_fused_add_8", kTokens * kWidth / 1024, 128);
  Generated(calls, "triton_red_fused__fused_rms_norm__unsafe_view_add_6", kTokens, 512);
  gemm();
  gemm();
  Generated(calls, "triton_poi_fused_mul_silu_7", kTokens * kInner / 1024, 128);
  gemm();
  Generated(calls, "triton_poi_fused_add_9", kTokens * kWidth / 1024, 128);
  calls.Norm(kTokens);
}

// Widths by blocks of 1,024 elements, rows by the blocks of a norm.
TEST(CompiledLayers, ByGeneratedKernelsAround) {
  LaunchedCalls calls;
  AddForward(calls);
  const auto found = calls.Inferred("aten::mm");
  ASSERT_EQ(found.size(), 3u);
  ExpectLinear(found[0], kTokens, kInner, kWidth);
  ExpectLinear(found[1], kTokens, kInner, kWidth);
  ExpectLinear(found[2], kTokens, kWidth, kInner);
}

// The first gradient of the graph is of the last layer, of its input where the kernel's operands
// lie so; what has the operands of a forward pass is computed again.
TEST(CompiledLayers, GradientsGoBackwards) {
  for (const auto& [kernel, n, k] :
       {std::tuple(kOfInput, kInner, kWidth), std::tuple(kOfWeights, kInner, kTokens),
        std::tuple(kForward, kWidth, kInner)}) {
    LaunchedCalls calls;
    AddForward(calls);
    Generated(calls, "triton_poi_fused_mul_silu_7", kTokens * kInner / 1024, 128);
    calls.Within({"autograd::engine::evaluate_function: CompiledFunctionBackward"}, "aten::mm",
                 kernel, kPersistent);
    Generated(calls, "triton_poi_fused_add_8", kTokens * kWidth / 1024, 128);
    const auto found = calls.Inferred("aten::mm");
    ASSERT_EQ(found.size(), 4u);
    ExpectLinear(found[3], kernel == kOfWeights ? kWidth : kTokens, n, k);
  }
}

// A graph without norms and losses, as of a U-Net, has no rows that a softmax could be of.
TEST(CompiledLayers, PointwiseKernelsAlone) {
  LaunchedCalls calls;
  Generated(calls, "triton_poi_fused_gelu_0", 64, 128);
  const auto found = calls.Inferred("triton_poi_fused_gelu_0");
  ASSERT_EQ(found.size(), 1u);
  // 64 blocks of four warps have 256 elements each, of four bytes.
  EXPECT_EQ(std::get<OpaqueOp>(found[0].shape).read_bytes, 64 * 256 * 4);
}

// Logits of 128,256 classes are a loss's: as many words as the largest weight has, or as rows of
// the gradient that is cleared before rows are added to it.
TEST(CompiledLayers, LogitsHaveAClassForEachWord) {
  const std::string loss = "triton_red_fused__log_softmax__to_copy_prepare_softmax_online_view_0";
  for (const bool gathered : {true, false}) {
    LaunchedCalls calls;
    if (gathered) AddForward(calls);
    Generated(calls, "triton_poi_fused_add_9", kTokens * kWidth / 1024, 128);
    calls.Norm(kTokens).Add("aten::mm", kForward, kPersistent);
    Generated(calls, loss, kTokens, 512);
    if (!gathered) {
      calls.Moves(
          "void vectorized_elementwise_kernel<8, FillFunctor<c10::BFloat16>, "
          "std::array<char*, 1ul> >",
          kClasses * kWidth);
      calls.Add("aten::embedding_dense_backward", "DeviceUniqueByKeySweepKernel",
                {{2, 1, 1}, {128, 1, 1}});
    }
    ExpectLinear(calls.Inferred("aten::mm").back(), kTokens, kClasses, kWidth);
    const auto read = calls.Inferred(loss);
    ASSERT_EQ(read.size(), 1u);
    EXPECT_EQ(std::get<OpaqueOp>(read[0].shape).read_bytes, 2 * kTokens * kClasses);
  }
}

// Weights are made 8 bits before the gradient of an input, which reduces over 14,336; before that
// of the weights, over 8,192 tokens, only activations are.
TEST(CompiledLayers, WhatIsQuantisedBeforeTellsGradientsOfEightBits) {
  constexpr std::string_view kSmall = "nvjet_sm90_qqtst_320x128_128x3_1x2_h_bz_coopB_TNT";
  const std::string quantise = "triton_poi_fused__scaled_mm__to_copy_clamp_mul_reciprocal_t_";
  for (const bool weights : {false, true}) {
    LaunchedCalls calls;
    calls.Gathers(
        {kWidth, kWidth, kInner * kWidth, kInner * kWidth, kInner * kWidth, kClasses * kWidth});
    Generated(calls, "triton_poi_fused_add_8", kTokens * kWidth / 1024, 128);
    Generated(calls, "triton_red_fused__fused_rms_norm_abs_max_0", kTokens, 512);
    Generated(calls, quantise + "1", kTokens * kWidth / 1024, 128);
    Generated(calls, quantise + "2", kInner * kWidth / 1024, 128);
    calls.Within({"CompiledFunction"}, "aten::_scaled_mm", kSmall, kPersistent);
    Generated(calls, "triton_poi_fused_silu_3", kTokens * kInner / 1024, 128);
    calls.Norm(kTokens);
    Generated(calls, quantise + "4", kTokens * kInner / 1024, 128);
    if (weights) Generated(calls, quantise + "5", kInner * kWidth / 1024, 128);
    calls.Within({"CompiledFunctionBackward"}, "aten::_scaled_mm", kSmall, kPersistent);
    const auto found = calls.Inferred("aten::_scaled_mm");
    ASSERT_EQ(found.size(), 2u);
    ExpectLinear(found[0], kTokens, kInner, kWidth);
    EXPECT_EQ(found[0].dtype, DType::kFloat8);
    const auto& gradient = std::get<LinearOp>(found[1].shape);
    EXPECT_EQ(gradient.k, weights ? kInner : kTokens);
  }
}

// Grids come from traces and may be anything.
TEST(CompiledLayers, HostileGrids) {
  constexpr uint32_t kMost = 0xffffffff;
  for (const LaunchAttr& grid :
       {LaunchAttr{{kMost, kMost, kMost}, {kMost, kMost, kMost}},
        LaunchAttr{{kMost, 1, 1}, {kMost, 1, 1}}, LaunchAttr{{1, 1, 1}, {1, 1, 1}}}) {
    LaunchedCalls calls;
    calls.Gathers({kWidth, kWidth, INT32_MAX, INT32_MAX, 1, kWidth});
    for (const std::string name :
         {"triton_poi_fused_add_0", "triton_red_fused__fused_rms_norm_backward_add_1",
          "triton_per_fused_log_softmax_2", "triton_red_fused_abs_max_3"}) {
      calls.Add(name, name, grid);
    }
    calls.Add("aten::sum", "reduce_kernel<128, 4, ReduceOp<sum_functor>", grid);
    calls.Add("aten::fill_", "vectorized_elementwise_kernel<8, FillFunctor, array<char*, 1ul>>",
              grid);
    calls.Add("aten::mm", kForward, grid).Norm(kMost);
    for (const char* name : {"triton_poi_fused_add_0", "triton_per_fused_log_softmax_2"}) {
      for (const OperatorCall& call : calls.Inferred(name)) {
        EXPECT_GE(std::get<OpaqueOp>(call.shape).read_bytes, 0);
      }
    }
  }
}

}  // namespace
}  // namespace foretrace
