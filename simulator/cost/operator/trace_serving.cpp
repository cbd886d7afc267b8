// Calls of serving engines and other extensions whose tensors are no measure of what they move:
// caches are passed whole, results are among the arguments, and a name may sound like a lookup.

#include <algorithm>
#include <initializer_list>

#include "simulator/cost/operator/trace_call.h"

namespace foretrace::trace_call {
namespace {

// _C_cache_ops::reshape_and_cache[_flash](key, value, key_cache, value_cache, slots, ...): the new
// keys and values are written into their slots, in the type of the cache.
Result CacheWrite(const Call& call) {
  if (!call.in_ok(3)) return std::nullopt;
  CopyOp op;
  op.elements = TotalElements({call.in[0], call.in[1]});
  op.output_dtype = call.in[2].dtype;
  return Traced(op, call);
}

// _C::rotary_embedding(positions, query, key, head_size, cos_sin_cache, ...): in place. Of each
// pair two products and a sum for either half.
Result RotaryEmbedding(const Call& call) {
  if (!call.in_ok(3)) return std::nullopt;
  const int64_t elements = TotalElements({call.in[1], call.in[2]});
  TracedOperator traced = Traced(ElementwiseOp{elements, elements, 1, 3}, call);
  traced.op.dtype = call.in[1].dtype;
  return traced;
}

// vllm::unified_attention[_with_output](query, key, value, ...), each [tokens, heads, d]. How many
// sequences the tokens are of, and how long their caches, is not among the arguments: one sequence
// without a past is assumed.
Result UnifiedAttention(const Call& call) {
  if (!call.in_ok(3) || call.in[0].dims.size() != 3 || call.in[1].dims.size() != 3) {
    return std::nullopt;
  }
  const auto &q = call.in[0].dims, &k = call.in[1].dims;
  TracedOperator traced = Traced(AttentionOp{1, q[1], k[1], q[0], k[0], q[2], true}, call);
  traced.assumed = true;
  return traced;
}

// (query, key, value, ...) of packages of fused attention, backward after the result's gradient.
Result PackagedAttention(std::string_view name, const Call& call) {
  const bool backward = name.find("ackward") != name.npos || name.find("bwd") != name.npos;
  return Attention(call, backward ? 1 : 0, backward ? Direction::kBackward : Direction::kForward,
                   false);
}

// rms_norm(result, input, weight), fused_add_rms_norm(input, residual, weight).
Result EngineNorm(std::string_view name, const Call& call) {
  if (!call.in_ok(2) || call.in[0].dims.empty()) return std::nullopt;
  const TensorShape& x = call.in[name.find("fused_add") == name.npos ? 1 : 0];
  const int64_t residuals = name.find("fused_add") == name.npos ? 0 : 1;
  const int64_t cols = x.dims.empty() ? 0 : x.dims.back();
  if (cols <= 0) return std::nullopt;
  TracedOperator traced = Traced(LayerNormOp{Elements(x) / cols, cols}, call);
  traced.op.dtype = x.dtype;
  traced.engine_norm = true;
  traced.residuals = residuals;
  return traced;
}

// silu_and_mul(result [tokens, d], input [tokens, 2 d]) and its like.
Result GatedActivation(const Call& call) {
  if (!call.in_ok(2)) return std::nullopt;
  const int64_t result = std::min(Elements(call.in[0]), Elements(call.in[1]));
  constexpr double kFlop = 14;  // an exponential, a division, products
  return Traced(ElementwiseOp{result, SaturatingProduct({2, result}), 1, kFlop}, call);
}

// static_scaled_fp8_quant(result, input, scale) and its like.
Result Quantised(const Call& call) {
  if (!call.in_ok(2)) return std::nullopt;
  const int64_t elements = Elements(call.in[1]);
  ElementwiseOp op{elements, elements, 1, 3};
  op.output_dtype = call.in[0].dtype;
  TracedOperator traced = Traced(op, call);
  traced.op.dtype = call.in[1].dtype;
  return traced;
}

// _C::paged_attention_v1(result, query [sequences, heads, d], keys [blocks, heads, d / x, tokens,
// x], values [blocks, heads, d, tokens], ..., blocks of each sequence [sequences, most], ...), and
// v2 with results of parts before the query (vLLM's csrc/torch_bindings.cpp): one token of each
// sequence, whose keys are at most as many as its row of blocks has.
Result PagedDecode(const Call& call) {
  for (size_t i = 1; i + 2 < call.in.size(); ++i) {
    const auto &q = call.in[i - 1].dims, &keys = call.in[i].dims, &values = call.in[i + 1].dims;
    if (q.size() != 3 || keys.size() != 5 || values.size() != 4) continue;
    const auto table =
        std::find_if(call.in.begin() + static_cast<std::ptrdiff_t>(i) + 2, call.in.end(),
                     [&](const TensorShape& t) { return t.dims.size() == 2 && t.dims[0] == q[0]; });
    if (table == call.in.end() || keys[1] <= 0) return std::nullopt;
    TracedOperator traced = Traced(
        AttentionOp{q[0], q[1], keys[1], 1, SaturatingProduct({table->dims[1], values[3]}), q[2]},
        call);
    traced.op.dtype = call.in[i - 1].dtype;
    traced.assumed = true;
    return traced;
  }
  return std::nullopt;
}

// vllm::outplace_fused_experts(tokens [t, h], w1 [E, 2 i, h], w2 [E, h, i], weights [t, k], ids
// [t, k], ...), tokens spread evenly over the experts: both GEMMs as one of as much work.
Result FusedExperts(const Call& call) {
  if (!call.in_ok(4)) return std::nullopt;
  const auto &x = call.in[0].dims, &up = call.in[1].dims, &down = call.in[2].dims,
             &chosen = call.in[3].dims;
  const bool shaped = x.size() == 2 && up.size() == 3 && down.size() == 3 && chosen.size() == 2;
  if (!shaped || up[0] != down[0] || up[2] != x[1] || chosen[0] != x[0]) return std::nullopt;
  const int64_t rows = SaturatingProduct({x[0], chosen[1]});
  const int64_t experts = std::min(std::max<int64_t>(up[0], 1), std::max<int64_t>(rows, 1));
  const int64_t width = std::min(up[1], int64_t{1} << 40) + std::min(down[2], int64_t{1} << 40);
  TracedOperator traced =
      Traced(BatchedMatmulOp{experts, (rows - 1) / experts + 1, width, x[1]}, call);
  traced.op.dtype = call.in[1].dtype;
  traced.assumed = true;
  return traced;
}

// fsdp::chunk_cat(gradients, dimension, chunks, result). Profiles leave out the types of lists; the
// one pair that the kernel converts is bfloat16 to float32, gradients to be reduced
// (aten/src/ATen/native/cuda/TensorShape.cu, _chunk_cat_out_cuda).
Result ChunkedGradients(const Call& call) {
  if (!call.in_ok(2)) return std::nullopt;
  const TensorShape &first = call.in.front(), &result = call.in.back();
  const int64_t elements = Elements(result);
  ElementwiseOp op{elements, elements};
  op.output_dtype = result.dtype;
  TracedOperator traced = Traced(op, call);
  traced.assumed = first.dtype == DType::kUnknown;
  const bool reduced = traced.assumed && result.dtype == DType::kFloat32;
  traced.op.dtype = reduced ? DType::kBFloat16 : traced.assumed ? result.dtype : first.dtype;
  return traced;
}

bool HasAny(std::string_view name, std::initializer_list<std::string_view> parts) {
  return std::ranges::any_of(parts, [&](std::string_view p) { return name.find(p) != name.npos; });
}

// Of extensions, whatever their namespace; the first that fits.
Result ExtensionCall(std::string_view name, const Call& call) {
  if (HasAny(name, {"flash_attn", "FlashAttn", "flash_fwd", "flash_bwd", "efficient_attention"})) {
    return PackagedAttention(name, call);
  }
  if (HasAny(name, {"::chunk_cat"})) return ChunkedGradients(call);
  if (HasAny(name, {"fused_experts"})) return FusedExperts(call);
  if (HasAny(name, {"and_mul"})) return GatedActivation(call);
  if (HasAny(name, {"scaled_mm", "w8a8", "fp8_gemm", "deep_gemm", "deepgemm"})) {
    return QuantisedMatmul(call);
  }
  if (HasAny(name, {"fp4_gemm", "fp4_mm"})) return PackedMatmul(call);
  // Of experts' weights ("_moe_C::moe_wna16_marlin_gemm") a token multiplies some alone.
  const bool experts = HasAny(name, {"moe"});
  if (!experts &&
      HasAny(name, {"gptq_gemm", "awq_gemm", "marlin_gemm", "machete_mm", "gemv_4bit"})) {
    return WeightsInFewBits(name, call);
  }
  if (HasAny(name, {"::dequantize_4bit"})) return Dequantised(call);
  if (HasAny(name, {"::optimizer_update_"})) return PackagedStep(call);
  if (HasAny(name, {"rms_norm_", "rmsnorm_"})) return std::nullopt;  // with quantisation, backward
  if (HasAny(name, {"::rms_norm", "::rmsnorm", "::fused_add_rms"})) return EngineNorm(name, call);
  if (HasAny(name, {"scaled_fp8_quant", "scaled_int8_quant", "per_token_quant"})) {
    return Quantised(call);
  }
  return std::nullopt;
}

}  // namespace

Result ServingCall(std::string_view name, const Call& call) {
  if (HasAny(name, {"reshape_and_cache", "append_paged_kv_cache"})) return CacheWrite(call);
  if (HasAny(name, {"::paged_attention_v"})) return PagedDecode(call);
  if (name.ends_with("::rotary_embedding")) return RotaryEmbedding(call);
  if (name.starts_with("vllm::unified_attention")) return UnifiedAttention(call);
  return ExtensionCall(name, call);
}

}  // namespace foretrace::trace_call
