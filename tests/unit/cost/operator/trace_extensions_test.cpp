// Operators of calls whose tensors alone would mislead: libraries' spellings, results among the
// arguments, arguments of which little is read.
#include <gtest/gtest.h>

#include <vector>

#include "simulator/cost/kernel/kernel_model.h"
#include "simulator/cost/operator/kernel_work.h"
#include "simulator/cost/operator/trace_operator.h"

namespace foretrace {
namespace {

using Dims = std::vector<int64_t>;
struct Argument {
  Dims dims;
  DType dtype = DType::kFloat16;
};

std::optional<TracedOperator> Find(std::string_view name, const std::vector<Argument>& in,
                                   const std::vector<Argument>& out = {}, bool opaque = false) {
  std::vector<TensorShape> inputs, outputs;
  for (const Argument& a : in) inputs.push_back({a.dims, a.dtype});
  for (const Argument& a : out) outputs.push_back({a.dims, a.dtype});
  return opaque ? OpaqueOperator(name, inputs, outputs) : OperatorFromTrace(name, inputs, outputs);
}
int64_t BytesOf(const std::optional<TracedOperator>& traced) {
  return traced ? TotalWork(traced->op).bytes.count() : -1;
}
double FlopOf(const std::optional<TracedOperator>& traced) {
  return traced ? TotalWork(traced->op).flop.count() : -1;
}

TEST(TraceExtensions, MatricesAmongScales) {
  // a [m, k], b [k, n] of 8 bits, their scales by row and column.
  EXPECT_DOUBLE_EQ(FlopOf(Find("aten::_scaled_mm", {{{512, 4096}, DType::kFloat8},
                                                    {{4096, 1024}, DType::kFloat8},
                                                    {{512, 1}, DType::kFloat32},
                                                    {{1, 1024}, DType::kFloat32}})),
                   2.0 * 512 * 4096 * 1024);
  // Of a serving engine the result stands first.
  EXPECT_DOUBLE_EQ(FlopOf(Find("_C::cutlass_scaled_mm", {{{512, 1024}},
                                                         {{512, 4096}, DType::kFloat8},
                                                         {{4096, 1024}, DType::kFloat8},
                                                         {{512, 1}, DType::kFloat32}})),
                   2.0 * 512 * 4096 * 1024);
  EXPECT_DOUBLE_EQ(FlopOf(Find("aten::mv", {{{1024, 512}}, {{512}}})), 2.0 * 1024 * 512);
  EXPECT_DOUBLE_EQ(FlopOf(Find("aten::_grouped_mm", {{{2048, 512}}, {{8, 512, 256}}, {{8}}})),
                   2.0 * 2048 * 512 * 256);
}

// vLLM's and SGLang's block-wise products have scales between their operands (DeepGEMM).
TEST(TraceExtensions, OperandsWithScalesBetween) {
  const double flop = 2.0 * 512 * 4096 * 1024;
  EXPECT_DOUBLE_EQ(
      FlopOf(Find("vllm::w8a8_block_fp8_matmul_deepgemm", {{{512, 4096}, DType::kFloat8},
                                                           {{512, 32}, DType::kFloat32},
                                                           {{1024, 4096}, DType::kFloat8},
                                                           {{8, 32}, DType::kFloat32},
                                                           {{512, 1024}, DType::kBFloat16}})),
      flop);
}

// 4,096 x 4,096 weights of 4 bits are 8 MiB, whatever integers they are packed into: vLLM's of 32
// bits, bitsandbytes' of 8, PyTorch's of 32 in four dimensions.
TEST(TraceExtensions, WeightsInFewBits) {
  const Argument scales{{32, 4096}};
  const auto weights_and = [](int64_t rows) {  // activations and results of two bytes beside
    return (int64_t{1} << 23) + 2 * 2 * rows * 4096;
  };
  EXPECT_EQ(BytesOf(Find("_C::awq_gemm", {{{16, 4096}}, {{4096, 512}, DType::kInt32}, scales})),
            weights_and(16));
  EXPECT_EQ(BytesOf(Find("_C::gptq_marlin_gemm", {{{16, 4096}}, {{256, 8192}, DType::kInt32}})),
            weights_and(16));
  EXPECT_EQ(BytesOf(Find("bitsandbytes::gemv_4bit", {{{1, 4096}}, {{8388608, 1}, DType::kUInt8}})),
            weights_and(1));
  EXPECT_EQ(
      BytesOf(Find("aten::_weight_int4pack_mm", {{{16, 4096}}, {{512, 64, 32, 2}, DType::kInt32}})),
      weights_and(16));
  // Many rows move no more of them.
  const auto many = Find("_C::awq_gemm", {{{2048, 4096}}, {{4096, 512}, DType::kInt32}, scales});
  EXPECT_EQ(BytesOf(many), weights_and(2048));
  EXPECT_DOUBLE_EQ(FlopOf(many), 2.0 * 2048 * 4096 * 4096);
  // 8 MiB of two values each become 16 Mi of two bytes.
  EXPECT_EQ(BytesOf(Find("bitsandbytes::dequantize_4bit", {{{8388608, 1}, DType::kUInt8}})),
            5 * 8388608);
  EXPECT_FALSE(Find("_C::awq_gemm", {{{16, 4096}}}).has_value());
}

// vLLM's gptq_marlin_gemm and machete_mm take weights of 8 bits too: 4,096 x 4,096 are 16 MiB, in
// which there would be 8,192 columns of 4 bits. Scales, of groups of 128, have as many as there
// are.
TEST(TraceExtensions, ScalesSayHowManyColumnsPackedWeightsHave) {
  for (std::string_view call : {"_C::gptq_marlin_gemm", "_C::machete_mm", "_C::gptq_gemm"}) {
    const auto product = Find(call, {{{16, 4096}}, {{256, 16384}, DType::kInt32}, {{32, 4096}}});
    EXPECT_EQ(BytesOf(product), (int64_t{1} << 24) + 2 * 2 * 16 * 4096) << call;
    EXPECT_DOUBLE_EQ(FlopOf(product), 2.0 * 16 * 4096 * 4096) << call;
  }
  // What no number of bits would make scales of is none: of 256 columns a weight would have 64.
  const auto other =
      Find("_C::gptq_gemm", {{{16, 4096}}, {{512, 4096}, DType::kInt32}, {{32, 256}}});
  EXPECT_DOUBLE_EQ(FlopOf(other), 2.0 * 16 * 4096 * 4096);
}

// Weights of 4 bits, 4,096 x 4,096, are 8.4 MB, which an H100 moves in 2.5 us at 3,350 GB/s, and
// rows of 64 in 16 bits beside them 1 MB; they take no longer than 63 do but for their own bytes.
TEST(TraceExtensions, PackedWeightsOf64RowsTakeWhat63Do) {
  const KernelModels models(*FindGpuPeaks("h100-sxm5-80gb"), {});
  const auto us = [&](int64_t rows) {
    const auto traced =
        Find("_C::awq_gemm", {{{rows, 4096}}, {{4096, 512}, DType::kInt32}, {{32, 4096}}});
    return models.Predict(Kernels(traced->op).at(0), Precision::kHalf).time.us();
  };
  EXPECT_GT(us(63), 2.5);
  EXPECT_NEAR(us(64) / us(63), 1, 0.03);
}

// Nothing is chosen of nothing: a call without indices, of a tensor without elements.
TEST(TraceExtensions, GathersOfNothing) {
  EXPECT_EQ(BytesOf(Find("aten::tril", {{{8, 0, 0}}})), 0);
  EXPECT_EQ(BytesOf(Find("aten::index", {{{0, 4}}})), 0);
}

// Two values of 4 bits a byte (vLLM's csrc/quantization/fp4, TensorRT-LLM).
TEST(TraceExtensions, OperandsOfTwoValuesAByte) {
  const Argument a{{512, 2048}, DType::kUInt8}, b{{1024, 2048}, DType::kUInt8};
  EXPECT_DOUBLE_EQ(FlopOf(Find("_C::cutlass_scaled_fp4_mm", {{{512, 1024}}, a, b})),
                   2.0 * 512 * 4096 * 1024);
}

// mamba_ssm: 8 samples of 3,072 channels and 2,048 positions, 16 states each with 15 FLOP; a whole
// layer is given twice the channels, its gradient that of 1,536 elements at each position.
TEST(TraceExtensions, SelectiveScans) {
  const double flop = 8.0 * 3072 * 2048 * 16 * 15;
  const Argument u{{8, 3072, 2048}}, states{{3072, 16}};
  EXPECT_DOUBLE_EQ(FlopOf(Find("SelectiveScanFn", {u, u, states})), flop);
  EXPECT_DOUBLE_EQ(FlopOf(Find("MambaInnerFn", {{{8, 6144, 2048}}, {{3072, 1, 4}}, states})), flop);
  EXPECT_DOUBLE_EQ(FlopOf(Find("SelectiveScanFnBackward", {u})), 3 * flop);
  EXPECT_DOUBLE_EQ(FlopOf(Find("MambaInnerFnBackward", {{{8, 2048, 1536}}})), 3 * flop);
  // 32 states.
  EXPECT_DOUBLE_EQ(FlopOf(Find("SelectiveScanFn", {u, u, {{3072, 32}}})), 2 * flop);
  EXPECT_FALSE(Find("SelectiveScanFn", {states}).has_value());
}

// Gradient and parameter in 16 bits, two states in 8: ten bytes a parameter, of which the
// gradient's two are read alone (bitsandbytes).
TEST(TraceExtensions, OptimizersOfExtensions) {
  const Argument tensor{{1000000}}, state{{1000000}, DType::kUInt8}, map{{256}, DType::kFloat32};
  EXPECT_EQ(BytesOf(Find("bitsandbytes::optimizer_update_8bit_blockwise",
                         {tensor, tensor, state, state, map, map})),
            6000000 + 4000000);
  // Gradients of a list of tensors, scaled in place.
  EXPECT_EQ(BytesOf(Find("aten::_amp_foreach_non_finite_check_and_unscale_",
                         {{{1000000}, DType::kFloat32}})),
            8000000);
}

// Of 64 sequences one token each, whose keys are in up to 128 blocks of 16: read once for the eight
// heads that four queries share.
TEST(TraceExtensions, PagedDecodes) {
  const Argument query{{64, 32, 128}}, keys{{4000, 8, 16, 16, 8}}, values{{4000, 8, 128, 16}},
      table{{64, 128}, DType::kInt32}, lengths{{64}, DType::kInt32};
  const auto first = Find("_C::paged_attention_v1", {query, query, keys, values, table, lengths});
  ASSERT_TRUE(first.has_value());
  const auto& op = std::get<AttentionOp>(first->op.shape);
  EXPECT_EQ(op.b, 64);
  EXPECT_EQ(op.heads, 32);
  EXPECT_EQ(op.kv_heads, 8);
  EXPECT_EQ(op.sq, 1);
  EXPECT_EQ(op.skv, 128 * 16);
  const Argument parts{{64, 32, 4}};
  EXPECT_TRUE(Find("_C::paged_attention_v2",
                   {query, parts, parts, {{64, 32, 4, 128}}, query, keys, values, table, lengths})
                  .has_value());
  EXPECT_FALSE(Find("_C::paged_attention_v1", {query, query, keys, values}).has_value());
}

// As torch.compile's code calls them, extern_kernels.mm(a, b, out=c), with c as the last argument.
TEST(TraceExtensions, AProductThatIsWrittenToAnArgument) {
  const double flop = 2.0 * 512 * 4096 * 1024;
  EXPECT_DOUBLE_EQ(FlopOf(Find("aten::mm", {{{512, 4096}}, {{4096, 1024}}, {{512, 1024}}})), flop);
  // b and c would be factors too, of 512 x 1024 by 1024 columns: n = m.
  EXPECT_DOUBLE_EQ(FlopOf(Find("aten::mm", {{{512, 4096}}, {{4096, 512}}, {{512, 512}}})),
                   flop / 2);
  const double added = flop + 512 * 1024;
  EXPECT_DOUBLE_EQ(
      FlopOf(Find("aten::addmm", {{{1024}}, {{512, 4096}}, {{4096, 1024}}, {{512, 1024}}})), added);
  EXPECT_DOUBLE_EQ(FlopOf(Find("aten::addmm", {{{512, 1024}}, {{512, 4096}}, {{4096, 1024}}})),
                   added);
  EXPECT_DOUBLE_EQ(
      FlopOf(Find("aten::bmm", {{{8, 512, 4096}}, {{8, 4096, 1024}}, {{8, 512, 1024}}})), 8 * flop);
  EXPECT_DOUBLE_EQ(
      FlopOf(Find("aten::baddbmm",
                  {{{8, 512, 1024}}, {{8, 512, 4096}}, {{8, 4096, 1024}}, {{8, 512, 1024}}})),
      8 * flop);
}

// A generated kernel that casts the operands of a GEMM is named after it and is given both.
TEST(TraceExtensions, GeneratedKernelsComputeNoGemms) {
  constexpr std::string_view kCast = "triton_poi_fused__scaled_mm__to_copy_clamp_clone_t_view_2";
  const std::vector<Argument> in = {{{1, 8192, 4096}, DType::kBFloat16},
                                    {{8192, 4096}, DType::kFloat8},
                                    {{4096, 8192}, DType::kFloat8}};
  EXPECT_FALSE(Find(kCast, in).has_value());
  const auto moves = Find(kCast, in, {}, true);
  EXPECT_EQ(BytesOf(moves), int64_t{8192} * 4096 * (2 + 1 + 1));
  ASSERT_TRUE(moves.has_value());
  EXPECT_EQ(moves->access.largest, int64_t{8192} * 4096);
}

// Scaled by a number: the list is read and written. With a list of gradients both are read. Of a
// norm one number a tensor is left.
TEST(TraceExtensions, StepsOverOneListOrTwo) {
  const int64_t elements = 64 * 256 + 1024 + 512;
  const std::vector<Argument> list = {
      {{64, 256}, DType::kFloat32}, {{1024}, DType::kFloat32}, {{512}, DType::kFloat32}};
  std::vector<Argument> scaled = list, lists = list;
  scaled.push_back({{}, DType::kFloat32});
  lists.insert(lists.end(), list.begin(), list.end());
  EXPECT_EQ(BytesOf(Find("aten::_foreach_mul_", scaled)), elements * (4 + 4));
  EXPECT_EQ(BytesOf(Find("aten::_foreach_add_", lists)), elements * (8 + 4));
  EXPECT_EQ(BytesOf(Find("aten::_foreach_norm", list)), elements * 4 + 3 * 4);
}

// FSDP2 packs gradients of 2 bytes into 4 bytes each to be reduced: lists have no types in
// profiles.
TEST(TraceExtensions, GradientsAreConvertedAsTheyArePacked) {
  const int64_t elements = 64 * 256 + 1024;
  const std::vector<Argument> packed = {{{64, 256}, DType::kUnknown},
                                        {{1024}, DType::kUnknown},
                                        {{8, elements / 8}, DType::kFloat32}};
  EXPECT_EQ(BytesOf(Find("fsdp::chunk_cat", packed)), elements * (2 + 4));
  EXPECT_TRUE(Find("fsdp::chunk_cat", packed)->assumed);
  EXPECT_EQ(BytesOf(Find("fsdp::chunk_cat", {{{64, 256}}, {{8, 2048}}})), 64 * 256 * (2 + 2));
}

TEST(TraceExtensions, ATransposedConvolutionIsAnInputsGradient) {
  // 4 x 4 filters by strides of 2: each of the input's elements meets 16 of 64 channels.
  const auto traced = Find("aten::cudnn_convolution_transpose",
                           {{{2, 128, 32, 32}}, {{128, 64, 4, 4}}}, {{{2, 64, 64, 64}}});
  ASSERT_TRUE(traced.has_value());
  EXPECT_FALSE(traced->assumed);
  EXPECT_DOUBLE_EQ(FlopOf(traced), 2.0 * 2 * 128 * 32 * 32 * 64 * 16);
  EXPECT_TRUE(Find("aten::cudnn_convolution_transpose", {{{2, 128, 32}}, {{128, 64, 4}}})->assumed);
}

TEST(TraceExtensions, PackagesOfAttention) {
  const std::vector<Argument> packed = {
      {{4096, 32, 128}}, {{4096, 8, 128}}, {{4096, 8, 128}}, {{5}, DType::kInt32}};
  const auto traced = Find("flash_attn::_flash_attn_varlen_forward", packed);
  ASSERT_TRUE(traced.has_value());
  const auto& attention = std::get<AttentionOp>(traced->op.shape);
  EXPECT_EQ(attention.b, 4);  // where four sequences end
  EXPECT_EQ(attention.sq, 1024);
  EXPECT_EQ(attention.kv_heads, 8);
  const auto backward =
      Find("FlashAttnFuncBackward",
           {{{2, 512, 16, 64}}, {{2, 512, 16, 64}}, {{2, 512, 16, 64}}, {{2, 512, 16, 64}}});
  ASSERT_TRUE(backward.has_value());
  EXPECT_EQ(backward->op.pass, Direction::kBackward);
  EXPECT_EQ(std::get<AttentionOp>(backward->op.shape).sq, 512);
}

TEST(TraceExtensions, EnginesKernelsHaveTheirResultsAmongTheirArguments) {
  // Reads both halves, writes one: 3 x 888 x 1024 values of 2 bytes.
  EXPECT_EQ(BytesOf(Find("_C::silu_and_mul", {{{888, 1024}}, {{888, 2048}}})), 3 * 888 * 1024 * 2);
  EXPECT_EQ(BytesOf(Find("_C::static_scaled_fp8_quant",
                         {{{888, 512}, DType::kFloat8}, {{888, 512}}, {{}, DType::kFloat32}})),
            888 * 512 * 3);
  const auto norm = Find("_C::fused_add_rms_norm", {{{888, 2880}}, {{888, 2880}}, {{2880}}});
  ASSERT_TRUE(norm.has_value());
  EXPECT_TRUE(norm->engine_norm);
  EXPECT_EQ(norm->residuals, 1);
  EXPECT_EQ(std::get<LayerNormOp>(norm->op.shape).rows, 888);
  // A generated kernel's: two arguments and its result.
  EXPECT_EQ(BytesOf(Find("triton_poi_fused_add_0", {{{1024}}, {{1024}}, {{1024}}}, {}, true)),
            3 * 1024 * 2);
  // A call that returns its result writes it beside.
  EXPECT_EQ(BytesOf(Find("extension::add", {{{1024}}, {{1024}}}, {}, true)), 3 * 1024 * 2);
  EXPECT_FALSE(Find("_C::paged_attention_v1", {{{8, 32, 128}}, {{99999, 8, 16, 16, 8}}}, {}, true));
}

TEST(TraceExtensions, ExpertsTakeTheirTokensShare) {
  // 512 tokens, 2 of 8 experts each: 128 rows an expert through [h, 2 i] and [i, h].
  const auto traced = Find("vllm::outplace_fused_experts", {{{512, 1024}},
                                                            {{8, 4096, 1024}},
                                                            {{8, 1024, 2048}},
                                                            {{512, 2}, DType::kFloat32},
                                                            {{512, 2}, DType::kInt32}});
  EXPECT_DOUBLE_EQ(FlopOf(traced), 2.0 * 1024 * 1024 * (4096 + 2048));
}

TEST(TraceExtensions, OfALossTheChosenScoresAloneAreRead) {
  const auto loss =
      Find("aten::nll_loss_forward", {{{2048, 50257}, DType::kFloat32}, {{2048}, DType::kInt64}});
  ASSERT_TRUE(loss.has_value());
  EXPECT_LT(BytesOf(loss), 10'000);
}

TEST(TraceExtensions, SortingPassesOverLongRowsByEightBits) {
  const int64_t pair = 4 + 8, elements = 1 << 20;
  EXPECT_EQ(BytesOf(Find("aten::sort", {{{elements}, DType::kFloat32}})), 2 * 4 * elements * pair);
  EXPECT_EQ(BytesOf(Find("aten::sort", {{{elements / 64, 64}, DType::kFloat32}})),
            2 * elements * pair);
}

TEST(TraceExtensions, HostileSizesEnd) {
  const int64_t large = int64_t{1} << 62;
  for (const char* name :
       {"aten::mv", "aten::_scaled_mm", "aten::_grouped_mm", "aten::cudnn_convolution_transpose",
        "aten::slow_conv_transpose2d", "flash_attn::_flash_attn_forward", "_C::rms_norm",
        "_C::silu_and_mul", "vllm::inplace_fused_experts", "_C::cutlass_scaled_mm", "aten::sort",
        "aten::topk", "aten::nll_loss_forward", "_C::static_scaled_fp8_quant"}) {
    for (const int64_t size : {int64_t{-5}, int64_t{0}, int64_t{1}, large}) {
      for (const size_t rank : {1, 2, 3, 4}) {
        const Argument tensor{Dims(rank, size), DType::kFloat8};
        const auto traced = Find(name, {tensor, tensor, tensor, tensor, tensor});
        if (traced) {
          EXPECT_GE(BytesOf(traced), 0) << name << " " << size;
        }
      }
    }
  }
}

}  // namespace
}  // namespace foretrace
