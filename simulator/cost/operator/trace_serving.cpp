// Calls of serving engines (vLLM) whose tensors are no measure of what they move: caches are passed
// whole, and a name may sound like a lookup.

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

}  // namespace

Result ServingCall(std::string_view name, const Call& call) {
  if (name.find("reshape_and_cache") != name.npos) return CacheWrite(call);
  if (name.ends_with("::rotary_embedding")) return RotaryEmbedding(call);
  if (name.starts_with("vllm::unified_attention")) return UnifiedAttention(call);
  return std::nullopt;
}

}  // namespace foretrace::trace_call
