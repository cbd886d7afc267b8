// Products and optimizer steps of values in few bits, from the shapes of calls of engines and
// extensions.

#include <algorithm>

#include "simulator/cost/operator/trace_call.h"

namespace foretrace::trace_call {
namespace {

bool IsHalf(DType dtype) { return dtype == DType::kFloat16 || dtype == DType::kBFloat16; }

// Columns of weights of so many bytes and k rows, by scales in 16 bits, [groups, n], among the
// call's tensors; nullopt: there are none that would leave 2 to 8 bits for each weight.
std::optional<int64_t> ColumnsOfScales(const Call& call, const TensorShape& x, int64_t bytes) {
  constexpr int64_t kFewest = 2, kMost = 8;
  for (const TensorShape& t : call.in) {
    if (&t == &x || !IsHalf(t.dtype) || t.dims.size() != 2 || t.dims[1] <= 0) continue;
    const int64_t weights = SaturatingProduct({x.dims.back(), t.dims[1]});
    const int64_t bits = SaturatingProduct({8, bytes});
    if (bits >= SaturatingProduct({kFewest, weights}) &&
        bits <= SaturatingProduct({kMost, weights})) {
      return t.dims[1];
    }
  }
  return std::nullopt;
}

}  // namespace

Result QuantisedMatmul(const Call& call) {
  const TensorShape* first = nullptr;
  for (const TensorShape& t : call.in) {
    if (t.dims.size() != 2 || ElementSize(t.dtype) != 1) continue;
    if (first == nullptr) {
      first = &t;
      continue;
    }
    const auto &a = first->dims, &b = t.dims;
    if (first->dtype != t.dtype || (a[1] != b[0] && a[1] != b[1])) continue;
    TracedOperator traced = Traced(LinearOp{a[0], a[1] == b[0] ? b[1] : b[0], a[1], false}, call);
    traced.op.dtype = t.dtype;
    return traced;
  }
  return std::nullopt;
}

// Each byte has two values of 4 bits, [m, k / 2] and [n, k / 2].
Result PackedMatmul(const Call& call) {
  Result traced = QuantisedMatmul(call);
  if (!traced) return traced;
  auto& op = std::get<LinearOp>(traced->op.shape);
  op.k = SaturatingProduct({2, op.k});
  traced->op.dtype = DType::kFloat8;
  return traced;
}

// x [..., k] in 16 bits and weights of k x n in 4 bits, or in 8, packed into integers of any shape
// (vLLM's csrc/quantization, bitsandbytes' gemv_4bit, PyTorch's _weight_int4pack_mm): a product of
// 16 bits of which the weights alone are smaller.
Result WeightsInFewBits(std::string_view name, const Call& call) {
  const TensorShape *x = nullptr, *weights = nullptr;
  for (const TensorShape& t : call.in) {
    if (IsHalf(t.dtype) && t.dims.size() >= 2 && x == nullptr) x = &t;
    const bool integer =
        !IsHalf(t.dtype) && t.dtype != DType::kFloat32 && t.dtype != DType::kUnknown;
    if (integer && (weights == nullptr || Elements(t) > Elements(*weights))) weights = &t;
  }
  if (x == nullptr || weights == nullptr || x->dims.back() <= 0) return std::nullopt;
  constexpr int64_t kMost = int64_t{1} << 61;
  const int64_t bytes =
      std::min(SaturatingProduct({Elements(*weights), ElementSize(weights->dtype)}), kMost);
  const bool wide = name.find("int8") != name.npos || name.find("fp8_marlin") != name.npos;
  const int64_t of_byte = wide ? 1 : 2;
  const int64_t k = x->dims.back(), m = LeadingElements(*x, 1);
  const int64_t n = ColumnsOfScales(call, *x, bytes).value_or(bytes * of_byte / k);
  if (n < 1) return std::nullopt;
  BatchedMatmulOp op{1, m, n, k};
  op.read_beside = bytes - std::min(SaturatingProduct({k, n, ElementSize(x->dtype)}), 2 * kMost);
  TracedOperator traced = Traced(op, call);
  traced.op.dtype = x->dtype;
  return traced;
}

// bitsandbytes::dequantize_4bit(values, two a byte, scales, ...): to 16 bits each.
Result Dequantised(const Call& call) {
  if (!call.in_ok(1) || ElementSize(call.in[0].dtype) != 1) return std::nullopt;
  const int64_t bytes = std::min(Elements(call.in[0]), int64_t{1} << 59);
  TracedOperator traced = Traced(OpaqueOp{bytes, 4 * bytes}, call);
  traced.weighed = true;
  return traced;
}

// bitsandbytes::optimizer_update_8bit_blockwise(gradient, parameters, states, ...) and _32bit:
// reads all that has a value for each parameter, and writes it but for the gradient.
Result PackagedStep(const Call& call) {
  if (!call.in_ok(2)) return std::nullopt;
  const int64_t parameters = Elements(call.in[0]);
  OpaqueOp op;
  for (size_t i = 0; i < call.in.size(); ++i) {
    if (Elements(call.in[i]) != parameters) continue;
    const int64_t bytes = SaturatingProduct({parameters, ElementSize(call.in[i].dtype)});
    op.read_bytes += std::min(bytes, (int64_t{1} << 62) - op.read_bytes);
    if (i > 0) op.written_bytes += std::min(bytes, (int64_t{1} << 62) - op.written_bytes);
  }
  TracedOperator traced = Traced(op, call);
  traced.weighed = true;
  return traced;
}

}  // namespace foretrace::trace_call
