#include "simulator/cost/traced/function_layers.h"

#include <gtest/gtest.h>

#include <string>
#include <variant>
#include <vector>

#include "tests/support/launched_calls.h"

namespace foretrace {
namespace {

constexpr std::string_view kAttention =
    "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128x64_4x1x1";
constexpr std::string_view kEngineNorm = "void transformer_engine::normalization::ln_fwd_kernel<>";
// 64 x 64 results a block.
constexpr std::string_view kTiled =
    "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize64x64x8_stage3_warpsize1x4x1_ffma";

std::vector<int64_t> Dims(std::initializer_list<int64_t> dims) { return dims; }

FunctionWork WorkOf(const std::vector<std::vector<int64_t>>& tensors,
                    std::string_view name = "_Layer") {
  std::vector<TensorShape> shapes;
  for (const auto& dims : tensors) shapes.push_back({dims, DType::kBFloat16});
  return WorkOfFunction(name, shapes);
}

// Transformer Engine's _Linear(weight, input, bias): y[4,096 x 2, 12,288] = x[.., 4,096] w^T.
TEST(FunctionLayers, ALayerIsItsInputAndItsWeights) {
  const FunctionWork work = WorkOf({Dims({12288, 4096}), Dims({4096, 2, 4096}), Dims({12288})});
  ASSERT_EQ(work.layers.size(), 1u);
  EXPECT_EQ(work.layers[0].m, 8192);
  EXPECT_EQ(work.layers[0].n, 12288);
  EXPECT_EQ(work.layers[0].k, 4096);
  EXPECT_EQ(work.rows, 8192);
  EXPECT_EQ(work.cols, 4096);
}

// _LayerNormMLP(input, norm's weight and bias, fc1's, fc2's): of a gated one fc1 is twice as wide
// as what fc2 is given. Weights in 8 bits behind the same in 16 are no layer.
TEST(FunctionLayers, LayersFollowEachOther) {
  const FunctionWork work = WorkOf({Dims({4096, 1, 1024}), Dims({1024}), Dims({1024}),
                                    Dims({8192, 1024}), Dims({8192, 1024}), Dims({1024, 4096})});
  ASSERT_EQ(work.layers.size(), 2u);
  EXPECT_EQ(work.layers[0].n, 8192);
  EXPECT_EQ(work.layers[1].m, 4096);
  EXPECT_EQ(work.layers[1].n, 1024);
  EXPECT_EQ(work.layers[1].k, 4096);
}

// Megatron's queries are [s, samples, heads, d], other packages' [samples, s, heads, d].
TEST(FunctionLayers, AttentionEitherWayRound) {
  for (const bool sequence_first : {true, false}) {
    const auto q = sequence_first ? Dims({4096, 2, 32, 128}) : Dims({2, 4096, 32, 128});
    const auto k = sequence_first ? Dims({4096, 2, 8, 128}) : Dims({2, 4096, 8, 128});
    const FunctionWork work = WorkOf({Dims({3}), Dims({3}), q, k, k});
    ASSERT_TRUE(work.attention.has_value());
    EXPECT_EQ(work.attention->b, 2);
    EXPECT_EQ(work.attention->heads, 32);
    EXPECT_EQ(work.attention->kv_heads, 8);
    EXPECT_EQ(work.attention->sq, 4096);
    EXPECT_EQ(work.attention->d, 128);
    EXPECT_TRUE(work.attention->causal);
  }
}

// FlexAttention's are [samples, heads, s, d], as PyTorch's own: no model has 2,048 heads.
TEST(FunctionLayers, AttentionWithHeadsBeforeTheSequence) {
  const auto q = Dims({4, 32, 2048, 128}), k = Dims({4, 8, 2048, 128});
  const FunctionWork work = WorkOf({q, k, k});
  ASSERT_TRUE(work.attention.has_value());
  EXPECT_EQ(work.attention->b, 4);
  EXPECT_EQ(work.attention->heads, 32);
  EXPECT_EQ(work.attention->kv_heads, 8);
  EXPECT_EQ(work.attention->sq, 2048);
}

// 3 sequences of 12,288 tokens, by where they begin.
TEST(FunctionLayers, AttentionOfPackedSequences) {
  const std::vector<int64_t> begins = {4}, q = {12288, 32, 128}, k = {12288, 8, 128};
  const std::vector<TensorShape> shapes = {
      {begins, DType::kInt32}, {q, DType::kBFloat16}, {k, DType::kBFloat16}, {k, DType::kBFloat16}};
  const FunctionWork work = WorkOfFunction("FusedAttnFunc", shapes);
  ASSERT_TRUE(work.attention.has_value());
  EXPECT_EQ(work.attention->b, 3);
  EXPECT_EQ(work.attention->heads, 32);
  EXPECT_EQ(work.attention->kv_heads, 8);
  EXPECT_EQ(work.attention->sq, 4096);
}

TEST(FunctionLayers, NothingIsMadeOfOtherTensors) {
  EXPECT_TRUE(WorkOf({}).layers.empty());
  EXPECT_TRUE(WorkOf({Dims({4096, 1, 1024}), Dims({77, 78})}).layers.empty());
  EXPECT_FALSE(WorkOf({Dims({2, 3, 4, 5}), Dims({2, 3, 4, 5}), Dims({2, 7, 4, 5})}).attention);
  const int64_t most = int64_t{1} << 62;
  EXPECT_GT(WorkOf({Dims({most, most, 8}), Dims({8, 8})}).rows, 0);
}

// A norm and a GEMM in one call; then both gradients of the GEMM, in a node that has only what
// flows into it, and the pass over a norm.
TEST(FunctionLayers, KernelsOfACallAndOfItsGradients) {
  LaunchedCalls calls;
  calls.Add("_LayerNormLinear", kEngineNorm, {{4096, 1, 1}, {128, 1, 1}}).Then(kGemm, kPersistent);
  calls.Shapes("_LayerNormLinear", {{4096, 2, 1024}, {1024}, {1024}, {3072, 1024}, {3072}});
  calls.Add("_LayerNormLinearBackward", kGemm, kPersistent).Then(kGemm, kPersistent);
  calls.Shapes("_LayerNormLinearBackward", {{4096, 2, 3072}});
  const auto forward = calls.Inferred("_LayerNormLinear");
  ASSERT_EQ(forward.size(), 2u);
  const auto& norm = std::get<LayerNormOp>(forward[0].shape);
  EXPECT_EQ(norm.rows, 8192);
  EXPECT_EQ(norm.cols, 1024);
  ExpectLinear(forward[1], 8192, 3072, 1024);
  const auto backward = calls.Inferred("_LayerNormLinearBackward");
  ASSERT_EQ(backward.size(), 2u);
  ExpectLinear(backward[0], 8192, 1024, 3072);
  ExpectLinear(backward[1], 3072, 1024, 8192);
}

// Megatron's: the gradient of the input is an operator's of PyTorch, that of the weights an
// extension's, so that of the two the second is left; what tiles hold goes first.
TEST(FunctionLayers, TheGradientThatNoOperatorMakes) {
  const std::string layer = "LinearWithGradAccumulationAndAsyncCommunication";
  LaunchedCalls calls;
  calls.Add("aten::mm", kGemm, kPersistent, layer).Shapes("aten::mm", {{8192, 768}, {768, 3072}});
  calls.Shapes(layer, {{1024, 8, 768}, {3072, 768}});
  calls.Add(layer + "Backward", kGemm, kPersistent);
  calls.Shapes(layer + "Backward", {{1024, 8, 3072}});
  ExpectLinear(calls.Inferred(layer + "Backward").at(0), 3072, 768, 8192);

  LaunchedCalls tiled;  // 128 x 12 blocks of 64 x 64: 8,192 x 768
  tiled.Add("_Linear", kTiled, {{12, 128, 1}, {128, 1, 1}});
  tiled.Shapes("_Linear", {{768, 3072}, {1024, 8, 3072}});
  tiled.Add("_LinearBackward", kTiled, {{48, 12, 1}, {128, 1, 1}});  // 3,072 x 768
  tiled.Then(kTiled, {{48, 128, 1}, {128, 1, 1}});                   // 8,192 x 3,072
  tiled.Shapes("_LinearBackward", {{1024, 8, 768}});
  const auto backward = tiled.Inferred("_LinearBackward");
  ASSERT_EQ(backward.size(), 2u);
  ExpectLinear(backward[0], 768, 3072, 8192);
  ExpectLinear(backward[1], 8192, 3072, 768);
}

TEST(FunctionLayers, AttentionAndItsGradients) {
  LaunchedCalls calls;
  calls.Add("FusedAttnFunc", kAttention, kPersistent);
  calls.Shapes("FusedAttnFunc", {{1024, 8, 12, 64}, {1024, 8, 12, 64}, {1024, 8, 12, 64}});
  calls.Add("FusedAttnFuncBackward", "void cudnn::fusion::compute_dot_do_o_specialized<true, 64>",
            kPersistent);
  calls.Then("cudnn_generated_fort_native_sdpa_sm90_flash_bprop_wgmma_f16_knob_26", kPersistent);
  calls.Then("void cudnn::fusion::convert_dq_to_16bits<true>", kPersistent);
  calls.Shapes("FusedAttnFuncBackward", {{1024, 8, 768}});
  for (const std::string name : {"FusedAttnFunc", "FusedAttnFuncBackward"}) {
    const auto found = calls.Inferred(name);
    ASSERT_EQ(found.size(), 1u) << name;  // its passes before and behind are within
    const auto& op = std::get<AttentionOp>(found[0].shape);
    EXPECT_EQ(op.b, 8);
    EXPECT_EQ(op.sq, 1024);
    EXPECT_EQ(found[0].pass == Direction::kBackward, name != "FusedAttnFunc");
  }
}

// FlexAttention's kernels are calls of their own, and name their pass.
TEST(FunctionLayers, AttentionThatNamesItsPass) {
  LaunchedCalls calls;
  const std::string name = "triton_tem_fused_flex_attention_backward_1";
  calls.Add(name, name, {{32, 128, 1}, {256, 1, 1}});
  calls.Shapes(name, {{4, 32, 2048, 128}, {4, 8, 2048, 128}, {4, 8, 2048, 128}});
  const auto found = calls.Inferred(name);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].pass, Direction::kBackward);
  ExpectAttention(found[0], 4, 32, 2048, 128);
}

// 8 experts of [512, 1,024]: Transformer Engine's _GroupedLinear has a matrix each, grouped_gemm
// one array; kernels for each expert, or one for all.
TEST(FunctionLayers, ExpertsShareTheRows) {
  std::vector<std::vector<int64_t>> tensors = {{4096, 1024}};
  tensors.insert(tensors.end(), 8, {512, 1024});
  for (const FunctionWork& work :
       {WorkOf(tensors, "_GroupedLinear"),
        WorkOf({Dims({4096, 1024}), Dims({8, 1024, 512}), Dims({8})}, "GroupedGemm"),
        WorkOf({Dims({4096, 1024}), Dims({8, 512, 1024}), Dims({8})}, "GroupedGemm")}) {
    EXPECT_EQ(work.experts, 8);
    ASSERT_EQ(work.layers.size(), 1u);
    EXPECT_EQ(work.layers[0].m, 4096);
    EXPECT_EQ(work.layers[0].n, 512);
    EXPECT_EQ(work.layers[0].k, 1024);
  }
  LaunchedCalls each;
  each.Add("_GroupedLinear", kGemm, kPersistent).Then(kGemm, kPersistent);
  each.Then(kGemm, kPersistent).Then(kGemm, kPersistent);
  each.Shapes("_GroupedLinear", {{4096, 1024}, {512, 1024}, {512, 1024}, {512, 1024}, {512, 1024}});
  each.Add("_GroupedLinearBackward", kGemm, kPersistent);
  for (int i = 1; i < 8; ++i) each.Then(kGemm, kPersistent);
  each.Shapes("_GroupedLinearBackward", {{4096, 512}});
  const auto forward = each.Inferred("_GroupedLinear");
  ASSERT_EQ(forward.size(), 4u);
  for (const OperatorCall& call : forward) ExpectLinear(call, 1024, 512, 1024);
  const auto backward = each.Inferred("_GroupedLinearBackward");
  ASSERT_EQ(backward.size(), 8u);
  ExpectLinear(backward[3], 1024, 1024, 512);
  ExpectLinear(backward[4], 512, 1024, 1024);

  LaunchedCalls together;
  together.Add("GroupedGemm", "cutlass::device_kernel<GemmGrouped>", kPersistent);
  together.Shapes("GroupedGemm", {{4096, 1024}, {8, 1024, 512}});
  const auto one = together.Inferred("GroupedGemm");
  ASSERT_EQ(one.size(), 1u);
  const auto& op = std::get<BatchedMatmulOp>(one[0].shape);
  EXPECT_EQ(op.b, 8);
  EXPECT_EQ(op.m, 512);
  EXPECT_EQ(op.n, 512);
  EXPECT_EQ(op.k, 1024);
}

// As PyTorch's layers, by the norm's rows and what is around.
TEST(FunctionLayers, WithoutShapesByWhatIsAround) {
  LaunchedCalls calls;
  calls.Norm(8192).Moves(kAdd, 8192 * 768).Add("_Linear", kGemm, kPersistent);
  calls.Moves(kAdd, 8192 * 3072);
  calls.Add("_LinearBackward", kGemm, kPersistent).Then(kGemm, kPersistent);
  ExpectLinear(calls.Inferred("_Linear").at(0), 8192, 3072, 768);
  const auto backward = calls.Inferred("_LinearBackward");
  ASSERT_EQ(backward.size(), 2u);
  ExpectLinear(backward[0], 8192, 768, 3072);
  ExpectLinear(backward[1], 3072, 768, 8192);
}

// Without launches, of which the rest of its kernels would be told, a call is what its tensors
// weigh.
TEST(FunctionLayers, WithoutLaunchesByTheTensors) {
  JobScript job(1);
  job.rank(0).Op("_Linear", {0, 9}).Kernel("ampere_sgemm_128x64_tn", {1, 2}, 7, {3, 4});
  const std::vector<int64_t> dims = {64, 64};
  for (int i = 0; i < 2; ++i) {
    job.rank(0).builder().AddTensor(job.rank(0).Of("_Linear"), {.dtype = DType::kFloat32}, dims);
  }
  const TraceStore store = job.Build();
  const KernelCalls calls = FindKernelCalls(store, store.ranks()[0]);
  EXPECT_TRUE(calls.functions.empty());
  EXPECT_EQ(calls.launched.size(), 1u);
}

// A graph of PyTorch's compiler is one function, whose gradients are no layer's.
TEST(FunctionLayers, CompiledGraphsAreNoFunctions) {
  LaunchedCalls calls;
  calls.Norm(8192).Moves(kAdd, 8192 * 768);
  calls.Add("aten::addmm", kGemm, kPersistent).Moves(kAdd, 8192 * 3072);
  calls.Add("CompiledFunction", kAdd, kPersistent);
  calls.Add("aten::mm", kGemm, kPersistent, "CompiledFunctionBackward");
  EXPECT_TRUE(calls.Inferred("aten::mm").empty());
}

}  // namespace
}  // namespace foretrace
