#include "simulator/cost/traced/shape_inference.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "simulator/cost/operator/kernel_work.h"
#include "tests/support/launched_calls.h"

namespace foretrace {
namespace {

using Calls = LaunchedCalls;

// 8,192 rows of 768 elements, as GPT-2 has: the norm tells the rows, the cast of its result the
// columns; 768 x 3,072 weights are cast, and 8,192 x 3,072 elements follow.
TEST(ShapeInference, ALayersSizesAreThoseThatExplainWhatIsAround) {
  Calls calls;
  calls.Norm(8192).Moves(kCast, 3072).Moves(kCast, 768 * 3072).Moves(kCast, 8192 * 768);
  calls.Add("aten::addmm", kGemm, kPersistent).Moves(kAdd, 8192 * 3072);
  const auto found = calls.Inferred("aten::addmm");
  ASSERT_EQ(found.size(), 1u);
  ExpectLinear(found[0], 8192, 3072, 768);
  EXPECT_EQ(found[0].dtype, DType::kBFloat16);
}

// The result goes to attention, whose sizes no launch tells: by the cast of the weights, or where
// there is none, queries, keys and values together.
TEST(ShapeInference, WhatIsGivenToAttention) {
  const std::string attention = "cudnn_generated_fort_native_sdpa_sm90_flash_fprop";
  Calls cast;
  cast.Moves(kAdd, 8192 * 768).Norm(8192).Moves(kCast, 768 * 1024).Moves(kCast, 8192 * 768);
  cast.Add("aten::addmm", kGemm, kPersistent);
  cast.Add("aten::_cudnn_attention_forward", attention, kPersistent);
  ExpectLinear(cast.Inferred("aten::addmm").at(0), 8192, 1024, 768);
  Calls plain;
  plain.Moves(kAdd, 8192 * 768).Norm(8192).Add("aten::addmm", kGemm, kPersistent);
  plain.Add("aten::_cudnn_attention_forward", attention, kPersistent);
  ExpectLinear(plain.Inferred("aten::addmm").at(0), 8192, 3 * 768, 768);
}

// 64 x 64 results a block: 32 x 48 blocks of 2,048 x 3,072.
TEST(ShapeInference, TilesBoundTheResult) {
  constexpr std::string_view kTiled =
      "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize64x64x8_stage3_warpsize1x4x1_ffma";
  Calls calls;
  calls.Moves(kAdd, 2048 * 768).Norm(2048).Add("aten::addmm", kTiled, {{32, 48, 1}, {128, 1, 1}});
  // What follows is another tensor's.
  calls.Moves(kAdd, 2048 * 7000);
  ExpectLinear(calls.Inferred("aten::addmm").at(0), 2048, 3072, 768);
}

TEST(ShapeInference, GradientsFollowInReverseOrder) {
  Calls calls;
  calls.Norm(8192).Moves(kAdd, 8192 * 768).Add("aten::addmm", kGemm, kPersistent);
  calls.Moves(kAdd, 8192 * 3072).Add("aten::addmm", kGemm, kPersistent);
  calls.Moves(kAdd, 8192 * 768);
  for (int layer = 0; layer < 2; ++layer) {
    // A node of both gradients.
    const std::string node = layer == 0 ? "AddmmBackward0" : "autograd AddmmBackward0";
    calls.Add("aten::mm", kGemm, kPersistent, node);
  }
  const auto forward = calls.Inferred("aten::addmm");
  ASSERT_EQ(forward.size(), 2u);
  ExpectLinear(forward[0], 8192, 3072, 768);
  ExpectLinear(forward[1], 8192, 768, 3072);
  // Of each node here the first gradient: of the input.
  const auto backward = calls.Inferred("aten::mm");
  ASSERT_EQ(backward.size(), 2u);
  ExpectLinear(backward[0], 8192, 3072, 768);
  ExpectLinear(backward[1], 8192, 768, 3072);
}

// What a checkpoint computes again, by its own function or within a node whose saved tensors are
// asked for, is forward: its gradients come behind, and then those of what was not.
// 512 samples of 13 features are the first copy; the first layer has but one gradient, of its
// weights ("nt").
TEST(ShapeInference, WhatCameFromTheHostIsTheFirstLayersInput) {
  constexpr std::string_view kForward = "ampere_sgemm_32x32_sliced1x4_tn",
                             kOfWeights = "ampere_sgemm_32x32_nt",
                             kRelu =
                                 "void vectorized_elementwise_kernel<8, launch_clamp_scalar(), "
                                 "std::array<char*, 2ul> >";
  const LaunchAttr wide = {{16, 16, 1}, {128, 1, 1}}, narrow = {{16, 1, 1}, {128, 1, 1}};
  Calls calls;
  calls.FromHost(512 * 13 * 4).FromHost(512 * 8);
  calls.Add("aten::addmm", kForward, wide).Moves(kRelu, 512 * 512);
  calls.Add("aten::addmm", kForward, wide).Moves(kRelu, 512 * 512).Norm(512);
  calls.Add("aten::mm", kOfWeights, wide, "AddmmBackward0");
  calls.Add("aten::mm", kOfWeights, narrow, "AddmmBackward0");
  const auto forward = calls.Inferred("aten::addmm");
  ASSERT_EQ(forward.size(), 2u);
  ExpectLinear(forward[0], 512, 512, 13);
  ExpectLinear(forward[1], 512, 512, 512);
  const auto backward = calls.Inferred("aten::mm");
  ASSERT_EQ(backward.size(), 2u);
  ExpectLinear(backward[0], 512, 512, 512);
  ExpectLinear(backward[1], 512, 13, 512);
}

TEST(ShapeInference, WhatIsComputedAgainIsForward) {
  for (const std::string node : {"CheckpointFunctionBackward", "AddBackward0"}) {
    Calls calls;
    calls.Norm(8192).Moves(kAdd, 8192 * 768).Add("aten::mm", kGemm, kPersistent);
    calls.Moves(kAdd, 8192 * 3072).Add("CheckpointFunction", kAdd, kPersistent);
    calls.Norm(8192).Moves(kAdd, 8192 * 768);
    calls.Within({node, "aten::linear"}, "aten::mm", kGemm, kPersistent);
    calls.Moves(kAdd, 8192 * 3072);
    calls.Within({node, "MmBackward0"}, "aten::mm", kGemm, kPersistent);
    calls.Then(kGemm, kPersistent);
    const auto found = calls.Inferred("aten::mm");
    ASSERT_EQ(found.size(), 3u) << node;
    ExpectLinear(found[0], 8192, 3072, 768);
    ExpectLinear(found[1], 8192, 3072, 768);
    ExpectLinear(found[2], 8192, 768, 3072);
  }
}

// Qwen1.5's layers: norms of root mean squares by single steps, whose means have 16 rows a block,
// and a gated layer, whose second GEMM has the input of the first, not what lies before it.
TEST(ShapeInference, NormsBySteps) {
  constexpr std::string_view kMean =
      "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, "
      "at::native::MeanOps<float, float, float, float>, unsigned int, float, 4> >";
  constexpr std::string_view kOldAdd =
      "void vectorized_elementwise_kernel<4, f<c10::BFloat16>, std::array<char*, 2ul> >";
  constexpr std::string_view kOldProduct =
      "void vectorized_elementwise_kernel<4, f<c10::BFloat16>, std::array<char*, 3ul> >";
  const auto blocks = [](int64_t elements) {  // of 512
    return LaunchAttr{{static_cast<uint32_t>((elements + 511) / 512), 1, 1}, {128, 1, 1}};
  };
  Calls calls;
  calls.Add("aten::pow", kOldAdd, blocks(int64_t{8937} * 1024));
  calls.Add("aten::mean", kMean, {{559, 1, 1}, {32, 16, 1}});
  calls.Add("aten::rsqrt", kOldAdd, blocks(8937));
  calls.Add("aten::mul", kOldAdd, blocks(int64_t{8937} * 1024));
  calls.Add("aten::mm", kGemm, kPersistent);
  calls.Add("aten::silu", kOldAdd, blocks(int64_t{8937} * 2816));
  calls.Add("aten::mm", kGemm, kPersistent);
  calls.Add("aten::mul", kOldProduct, blocks(int64_t{8937} * 2816));
  calls.Add("aten::mm", kGemm, kPersistent);
  calls.Add("aten::add", kOldProduct, blocks(int64_t{8937} * 1024));
  const auto found = calls.Inferred("aten::mm");
  ASSERT_EQ(found.size(), 3u);
  ExpectLinear(found[0], 8937, 2816, 1024);
  ExpectLinear(found[1], 8937, 2816, 1024);
  ExpectLinear(found[2], 8937, 1024, 2816);
  const auto means = calls.Inferred("aten::mean");
  ASSERT_EQ(means.size(), 1u);
  EXPECT_EQ(std::get<ReductionOp>(means[0].shape).rows, 8937);
  EXPECT_EQ(std::get<ReductionOp>(means[0].shape).cols, 1024);
}

// Of the forward pass, as of an execution trace beside the profile.
TEST(ShapeInference, GradientsOfLayersThatHaveShapes) {
  Calls calls;
  calls.Norm(8192).Moves(kAdd, 8192 * 768).Add("aten::addmm", kGemm, kPersistent);
  calls.Shapes("aten::addmm", {{3072}, {8192, 768}, {768, 3072}});
  calls.Add("aten::mm", kGemm, kPersistent, "AddmmBackward0");
  ExpectLinear(calls.Inferred("aten::mm").at(0), 8192, 768, 3072);
}

// Heads of 12 by 96 batches, sequences of 3,137: rows of scores are blocks of the softmax.
TEST(ShapeInference, ScoresOfASoftmax) {
  const LaunchAttr scores{{200, 4, 96}, {128, 1, 1}}, context{{25, 1, 96}, {128, 1, 1}};
  constexpr std::string_view kTile = "cutlass_75_tensorop_bf16_s1688gemm_bf16_128x128_nn_align1";
  Calls calls;
  calls.Add("aten::bmm", kTile, scores);
  calls.Add("aten::_softmax", "cunn_SoftMaxForward<8, c10::BFloat16, float>",
            {{96 * 3137, 1, 1}, {1024, 1, 1}});
  calls.Add("aten::bmm", kTile, context);
  const auto found = calls.Inferred("aten::bmm");
  ASSERT_EQ(found.size(), 2u);
  const auto &first = std::get<BatchedMatmulOp>(found[0].shape),
             &second = std::get<BatchedMatmulOp>(found[1].shape);
  EXPECT_EQ(first.b, 96);
  EXPECT_EQ(first.m, 3137);
  EXPECT_EQ(first.n, 3137);
  EXPECT_EQ(second.m, 3137);
  EXPECT_EQ(second.k, 3137);
  const auto softmax = calls.Inferred("aten::_softmax");
  ASSERT_EQ(softmax.size(), 1u);
  EXPECT_EQ(std::get<SoftmaxOp>(softmax[0].shape).rows, 96 * 3137);
  EXPECT_EQ(std::get<SoftmaxOp>(softmax[0].shape).cols, 3137);
  EXPECT_EQ(softmax[0].dtype, DType::kBFloat16);
}

// 4 sequences of 197 tokens in two blocks of 128 queries, 12 heads: rows of the norm tell 197.
TEST(ShapeInference, AttentionByItsGrid) {
  Calls calls;
  calls.Norm(4 * 197).Add("aten::_flash_attention_forward",
                          "pytorch_flash::flash_fwd_kernel<pytorch_flash::Flash_fwd_kernel_traits<"
                          "64, 128, 128, 4, false, false, cutlass::bfloat16_t>, true>",
                          {{2, 4, 12}, {128, 1, 1}});
  const auto found = calls.Inferred("aten::_flash_attention_forward");
  ASSERT_EQ(found.size(), 1u);
  ExpectAttention(found[0], 4, 12, 197, 64);
}

// cuDNN's says its head's dimension alone; what goes before its gradients has blocks of 1,024
// elements of a head's queries (16 of 64, 8 of 128: 500 queries are 32 and 63), samples, heads.
TEST(ShapeInference, AttentionByThePassBeforeItsGradients) {
  const std::string name = "cudnn_generated_fort_native_sdpa_sm90_flash_";
  for (const auto& [head, blocks] : {std::pair(64, 32u), std::pair(128, 63u)}) {
    const std::string tile = std::to_string(head);
    Calls calls;
    calls.Norm(8 * 500).Add("aten::_cudnn_attention_forward",
                            name + "fprop_wgmma_f16_knob_7_64x128x" + tile + "_4x1x1", kPersistent);
    calls.Add("aten::_cudnn_attention_backward",
              "void cudnn::fusion::compute_dot_do_o_specialized<true, " + tile + ">",
              {{blocks, 8, 12}, {128, 1, 1}});
    calls.Then(name + "bprop_wgmma_f16_knob_26_64x64x" + tile + "_1x4x1", kPersistent);
    for (const std::string pass : {"forward", "backward"}) {
      const auto found = calls.Inferred("aten::_cudnn_attention_" + pass);
      ASSERT_EQ(found.size(), 1u) << pass;
      ExpectAttention(found[0], 8, 12, 500, head);
    }
  }
}

TEST(ShapeInference, ElementsByBlocks) {
  Calls calls;
  calls.Moves(kCast, 5 * 1024);
  const auto found = calls.Inferred("aten::copy_");
  ASSERT_EQ(found.size(), 1u);
  const auto& op = std::get<ElementwiseOp>(found[0].shape);
  EXPECT_EQ(op.elements, 5 * 1024);
  EXPECT_EQ(op.read_elements, 5 * 1024);
  EXPECT_EQ(found[0].dtype, DType::kFloat32);
  EXPECT_EQ(op.output_dtype, DType::kBFloat16);
}

// Two layers; then, behind a kernel that only a backward pass has, their gradients: of the last
// layer's input, of its weights with what adds up its parts, a sum for its bias, then the first's;
// behind an optimizer's kernel the next forward pass.
TEST(ShapeInference, KernelsOfAGraph) {
  const auto blocks = [](int64_t elements) {
    return LaunchAttr{{static_cast<uint32_t>((elements + 1023) / 1024), 1, 1}, {128, 1, 1}};
  };
  constexpr std::string_view kSplit = "void cublasLt::splitKreduce_kernel<32, 16, int, float>";
  constexpr std::string_view kSum =
      "void at::native::reduce_kernel<128, 4, at::native::ReduceOp<float, sum_functor<float> > >";
  Calls calls;
  const auto forward = [&] {
    calls.InGraph(kNorm, {{8192, 1, 1}, {128, 1, 1}}).InGraph(kAdd, blocks(8192 * 768));
    calls.InGraph(kGemm, kPersistent).InGraph(kAdd, blocks(8192 * 3072));
    calls.InGraph(kGemm, kPersistent).InGraph(kAdd, blocks(8192 * 768));
  };
  forward();
  calls.InGraph("layer_norm_grad_input_kernel<float>", {{8192, 1, 1}, {128, 1, 1}});
  calls.InGraph("GammaBetaBackwardCUDAKernel<float>", {{8, 1, 1}, {128, 1, 1}});
  for (int layer = 0; layer < 2; ++layer) {
    calls.InGraph(kGemm, kPersistent).InGraph(kGemm, kPersistent);
    calls.InGraph(kSplit, {{24, 24, 1}, {32, 16, 1}}).InGraph(kSum, {{24, 1, 1}, {32, 16, 1}});
  }
  calls.InGraph("multi_tensor_apply_kernel<Adam>", {{100, 1, 1}, {512, 1, 1}});
  forward();
  std::vector<OperatorCall> layers, sums, norms;
  for (const OperatorCall& call : calls.Inferred("")) {
    if (std::holds_alternative<LinearOp>(call.shape)) layers.push_back(call);
    if (std::holds_alternative<ReductionOp>(call.shape)) sums.push_back(call);
    if (std::holds_alternative<LayerNormOp>(call.shape)) norms.push_back(call);
  }
  ASSERT_EQ(layers.size(), 8u);
  for (const size_t first : {0u, 6u}) {
    ExpectLinear(layers[first], 8192, 3072, 768);
    ExpectLinear(layers[first + 1], 8192, 768, 3072);
  }
  ExpectLinear(layers[2], 8192, 3072, 768);
  ExpectLinear(layers[3], 768, 3072, 8192);
  ExpectLinear(layers[4], 8192, 768, 3072);
  ExpectLinear(layers[5], 3072, 768, 8192);
  ASSERT_EQ(sums.size(), 2u);
  EXPECT_EQ(std::get<ReductionOp>(sums[0].shape).rows, 768);
  EXPECT_EQ(std::get<ReductionOp>(sums[1].shape).rows, 3072);
  ASSERT_EQ(norms.size(), 3u);  // the gradient of its weights is a part of the second
  EXPECT_EQ(norms[1].pass, Direction::kBackward);
}

// A kernel whose like a call launches that has shapes is like that one.
// No kernel's name says which pass it is of, but one GEMM sums over rows ("nt"): those before it,
// as far as they multiply matrices as they are ("nn"), are gradients too. xmma's second launch adds
// the parts of the first.
TEST(ShapeInference, PassesOfAGraphByTransposes) {
  const auto tiled = [](const std::string& transposed, const std::string& part = "") {
    return "sm80_xmma_gemm_f32f32_f32f32_f32_" + transposed +
           "_n_tilesize64x64x8_stage3_warpsize1x4x1_ffma_execute" + part + "_kernel";
  };
  constexpr std::string_view kRelu =
      "void vectorized_elementwise_kernel<8, launch_clamp_scalar(), std::array<char*, 2ul> >";
  const auto blocks = [](uint32_t elements) {
    return LaunchAttr{{elements / 1024, 1, 1}, {128, 1, 1}};
  };
  const LaunchAttr wide = {{8, 16, 1}, {128, 1, 1}}, narrow = {{8, 8, 1}, {128, 1, 1}},
                   high = {{16, 8, 1}, {128, 1, 1}}, parts = {{8, 16, 2}, {128, 1, 1}};
  Calls calls;
  calls.InGraph(kRelu, blocks(512 * 512));
  calls.InGraph(tiled("tn"), wide).InGraph(kRelu, blocks(512 * 1024));
  calls.InGraph(tiled("tn"), narrow).InGraph(kRelu, blocks(512 * 512));
  calls.InGraph("cunn_SoftMaxForward<LogSoftMax>", {{512, 1, 1}, {128, 1, 1}});
  calls.InGraph(tiled("nn"), parts).InGraph(tiled("nn", "_split_k"), parts);
  for (int i = 0; i < 4; ++i) calls.InGraph(kRelu, blocks(1024));
  calls.InGraph(tiled("nt"), wide).InGraph(kRelu, blocks(512 * 1024));
  calls.InGraph(tiled("nn"), narrow).InGraph(tiled("nt"), high);
  std::vector<OperatorCall> layers;
  for (const OperatorCall& call : calls.Inferred("")) {
    if (std::holds_alternative<LinearOp>(call.shape)) layers.push_back(call);
  }
  ASSERT_EQ(layers.size(), 6u);
  ExpectLinear(layers[0], 512, 1024, 512);
  ExpectLinear(layers[1], 512, 512, 1024);
  ExpectLinear(layers[2], 512, 1024, 512);
  ExpectLinear(layers[3], 512, 1024, 512);
  ExpectLinear(layers[4], 512, 512, 1024);
  ExpectLinear(layers[5], 1024, 512, 512);
}

TEST(ShapeInference, LikesOfCallsAreNoneOfAGraph) {
  JobScript job(1);
  job.rank(0).Op("aten::neg", {0, 9}).Kernel("negate", {1, 2}, 7, {3, 4});
  const std::vector<int64_t> dims = {1024};
  job.rank(0).builder().AddTensor(job.rank(0).Of("aten::neg"), {.dtype = DType::kFloat32}, dims);
  job.rank(0).InFlight("negate", 7, {5, 6}).InFlight("other", 7, {7, 8});
  const TraceStore store = job.Build();
  const KernelCalls calls = FindKernelCalls(store, store.ranks()[0]);
  ASSERT_EQ(calls.uncalled.size(), 1u);
  EXPECT_EQ(store.name(store.ranks()[0], calls.uncalled[0]), "other");
}

TEST(ShapeInference, NothingIsMadeUp) {
  Calls alone;  // no norm, no batch: rows are not known
  alone.Moves(kAdd, 8192 * 768).Add("aten::addmm", kGemm, kPersistent);
  EXPECT_TRUE(alone.Inferred("aten::addmm").empty());
  Calls other;  // its tiles hold less than any of what is around
  other.Norm(8192).Moves(kAdd, 8192 * 768);
  other.Add("aten::addmm", "ampere_sgemm_128x64_tn", {{1, 1, 1}, {128, 1, 1}})
      .Moves(kAdd, 8192 * 3072);
  EXPECT_TRUE(other.Inferred("aten::addmm").empty());
  Calls vague;  // no grid
  JobScript job(1);
  job.rank(0).Op("aten::addmm", {0, 9}).Kernel(kGemm, {1, 2}, 7, {3, 4}).Waves(kGemm, 1000);
  const TraceStore store = job.Build();
  KernelCalls calls = FindKernelCalls(store, store.ranks()[0]);
  InferShapes(store, store.ranks()[0], *FindGpuPeaks("h100-sxm5-80gb"), calls);
  EXPECT_TRUE(calls.launched.empty());
}

// Grids come from files and may be anything.
TEST(ShapeInference, HostileGrids) {
  constexpr uint32_t kMost = 0xffffffff;
  Calls calls;
  calls.Add("aten::native_layer_norm", kNorm, {{kMost, 1, 1}, {kMost, kMost, kMost}});
  calls.Add("aten::copy_", kAdd, {{kMost, kMost, kMost}, {kMost, kMost, kMost}});
  calls.Add("aten::mm", "volta_sgemm_128x64_nn", {{kMost, kMost, kMost}, {kMost, kMost, kMost}});
  calls.Add("aten::bmm", "volta_sgemm_128x64_nn", {{kMost, 1, kMost}, {kMost, kMost, kMost}});
  calls.Add("aten::_softmax", "cunn_SoftMaxForward<4, float>", {{kMost, 1, 1}, {1, 1, 1}});
  calls.Add("aten::bmm", "volta_sgemm_128x64_nn", {{1, 1, 1}, {1, 1, 1}});
  calls.Add("aten::_flash_attention_forward",
            "flash_fwd_kernel<Flash_fwd_kernel_traits<9999, 9999, 9999, 4>>",
            {{kMost, kMost, kMost}, {kMost, kMost, kMost}});
  calls.Add("aten::_efficient_attention_forward", "fmha_cutlassF_f32_aligned_64xfoo",
            {{1, 1, 1}, {1, 1, 1}});
  const LaunchAttr most = {{kMost, kMost, kMost}, {kMost, kMost, kMost}},
                   least = {{1, 1, 1}, {1, 1, 1}};
  for (const LaunchAttr& grid : {most, least}) {
    calls.FromHost(INT64_MAX);
    calls.Add("aten::cudnn_convolution", "sm80_xmma_fprop_implicit_gemm_tilesize64x32x8_g1_ffma_x",
              grid);
    calls.Add("aten::cudnn_convolution", "void cudnn::ops::nchwToNhwcKernel<float>", grid);
    calls.Then("void cudnn::ops::nchwToNhwcKernel<float>", grid)
        .Then("void implicit_convolve_sgemm<float>", grid);
    calls.Add("aten::cudnn_batch_norm", "cudnn::bn_fw_tr_1C11_singleread<float>", grid);
    calls.Add("aten::relu", kAdd, grid);
    calls.Add("aten::_embedding_bag", "EmbeddingBag_updateOutputKernel_sum_mean<float>", grid);
    calls.Add("aten::convolution_backward",
              "cudnn::detail::dgrad_engine<float, 512, 6, 5, 3, 3, 3>", grid,
              "ConvolutionBackward0");
    calls.Add("aten::gather", "vectorized_gather_kernel<16, long>", grid, "EmbeddingBagBackward0");
    calls.Add("aten::index_add_", "indexFuncLargeIndex<float, long>", grid);
    calls.Add("aten::index_put_", "indexing_backward_kernel_stride_1<float>", grid);
  }
  for (const char* name : {"aten::mm", "aten::bmm", "aten::_softmax", "aten::cudnn_convolution",
                           "aten::convolution_backward", "aten::_embedding_bag", "aten::index_add_",
                           "aten::index_put_"}) {
    for (const OperatorCall& call : calls.Inferred(name)) EXPECT_FALSE(Kernels(call).empty());
  }
}

}  // namespace
}  // namespace foretrace
