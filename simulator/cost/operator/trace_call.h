#pragma once
// A framework call's tensors, as the rules of trace_operator.cpp look at them; a detail of it.

#include <cstdint>
#include <optional>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "simulator/cost/operator/kernel_work.h"
#include "simulator/cost/operator/trace_operator.h"

namespace foretrace {
struct ElementwiseTraits;
}  // namespace foretrace

namespace foretrace::trace_call {

using Tensors = absl::InlinedVector<TensorShape, 8>;
using Result = std::optional<TracedOperator>;

// A call's tensors that have dimensions, in order.
struct Call {
  Tensors in, out;
  DType dtype = DType::kFloat32;
  bool in_ok(size_t n) const { return in.size() >= n; }
};

inline int64_t Elements(const TensorShape& t) {
  int64_t product = 1;
  for (int64_t d : t.dims) product = SaturatingProduct({product, d});
  return product;
}

// Product of all dimensions but the last `trailing`.
inline int64_t LeadingElements(const TensorShape& t, size_t trailing) {
  int64_t product = 1;
  for (size_t i = 0; i + trailing < t.dims.size(); ++i) {
    product = SaturatingProduct({product, t.dims[i]});
  }
  return product;
}

// Elements of many tensors, at most 2^62.
inline int64_t TotalElements(const Tensors& tensors) {
  int64_t total = 0;
  for (const TensorShape& t : tensors) total += std::min(Elements(t), (int64_t{1} << 62) - total);
  return total;
}

inline TracedOperator Traced(OperatorCall::Shape shape, const Call& call,
                             Direction pass = Direction::kForward) {
  return {{std::move(shape), call.dtype, pass}, false, {}, false, 0};
}
inline TracedOperator Backward(OperatorCall::Shape shape, const Call& call) {
  return Traced(std::move(shape), call, Direction::kBackward);
}

// trace_dense.cpp
Result Matmul(const Call& call, bool bias);
Result Linear(const Call& call);
Result BatchedMatmul(const Call& call);
Result ConvolutionForward(const Call& call);
// grad_output, input, weight; the older spelling has input and grad_output the other way round.
Result ConvolutionBackward(const Call& call, bool input_first);
// query, key, value from argument `first` on; in [b, heads, s, d], or [b, s, heads, d], or
// [tokens, heads, d] of several sequences.
Result Attention(const Call& call, size_t first, Direction pass, bool heads_second);

Result MatrixVector(const Call& call);
// Operands in 8 bits or fewer, then their scales.
Result ScaledMatmul(const Call& call);
// [rows, k] x [groups, k, n], rows spread evenly over the groups.
Result GroupedMatmul(const Call& call);
// The gradient of a convolution's input, from its filters [c, k / groups, r, s].
Result TransposedConvolution(const Call& call);

// trace_rows.cpp
Result LayerNormForward(const Call& call);
Result LayerNormBackward(const Call& call);
Result GroupNorm(const Call& call);
Result GroupNormBackward(const Call& call);
Result BatchNormForward(const Call& call);
// grad_output, input; the libraries' spelling has input first.
Result BatchNormBackward(const Call& call);
Result BatchNormBackwardInputFirst(const Call& call);
Result SoftmaxForward(const Call& call);
Result SoftmaxBackward(const Call& call);
Result OfLogarithm(Result softmax);
Result ChosenScores(const Call& call);
Result Sorted(const Call& call);
Result Largest(const Call& call);

// trace_embedding.cpp
// FBGEMM's table-batched lookups.
Result BatchedLookup(std::string_view name, const Call& call);
// weight [E, D], indices [N], offsets [B].
Result EmbeddingBag(const Call& call);
// gradient [B, D], indices [N], ...
Result EmbeddingBagBackward(const Call& call);

// trace_indexed.cpp
// source, indices...; result where recorded.
Result Gather(const Call& call, Direction pass);
// index_select: whole rows, or slices of another dimension, which traces do not name.
Result SelectRows(const Call& call);
// weight [E, D], indices of any shape: one row each.
Result EmbeddingRows(const Call& call);
// destination, indices, values.
Result IndexPut(const Call& call);

// trace_elements.cpp
// `scalar_second`: the second operand is a number; `has_scalars`: without shapes its arguments are
// single values.
Result Elementwise(const ElementwiseTraits& traits, const Call& call, bool scalar_second,
                   bool has_scalars);
Result Reduction(const Call& call);
// destination, source.
Result Copy(const Call& call);
// Reads its one tensor and writes as much.
Result CumulativeSum(const Call& call);
Result FourierTransform(const Call& call);
Result Concat(const Call& call);
Result MaxPool(const Call& call);
Result MaxPoolBackward(const Call& call);
Result AveragePoolForward(const Call& call);
Result AveragePoolBackward(const Call& call);
Result Fill(const Call& call);

// trace_steps.cpp
// Over lists of tensors: one elementary step over all of them.
Result ForeachStep(std::string_view name, const Call& call);
// _fused_adam_ and its like: one kernel over all.
Result FusedStep(std::string_view name, const Call& call);

// trace_serving.cpp
// nullopt: not one of these.
Result ServingCall(std::string_view name, const Call& call);

// trace_scans.cpp
// Of state-space models; nullopt: another call.
Result SelectiveScan(std::string_view name, const Call& call);

// trace_quantised.cpp
// Two matrices of 8 bits, [m, k] and [k, n] or [n, k], among their scales and others.
Result QuantisedMatmul(const Call& call);
// The same of values in 4 bits.
Result PackedMatmul(const Call& call);
// Of an activation in 16 bits by weights in 4 or 8, packed.
Result WeightsInFewBits(std::string_view name, const Call& call);
Result Dequantised(const Call& call);
Result PackagedStep(const Call& call);

}  // namespace foretrace::trace_call
