// Norms, softmax, losses and sorting from the shapes of framework calls.

#include <algorithm>

#include "simulator/cost/operator/trace_call.h"

namespace foretrace::trace_call {
namespace {

Result BatchNorm(const TensorShape& x, const Call& call, Direction pass) {
  if (x.dims.size() < 2) return std::nullopt;
  BatchNormOp op{x.dims[0], x.dims[1]};
  for (size_t i = 2; i < x.dims.size(); ++i) op.h = SaturatingProduct({op.h, x.dims[i]});
  return Traced(op, call, pass);
}

Result Softmax(const TensorShape& x, const Call& call, Direction pass) {
  return Traced(SoftmaxOp{LeadingElements(x, 1), x.dims.back()}, call, pass);
}

// Bytes that pass over `elements` keys of `dtype`, each with an index of 8 bytes, reads and writes.
TracedOperator Passes(int64_t elements, double reads, double writes, const Call& call) {
  const double bytes = static_cast<double>(std::min<int64_t>(elements, int64_t{1} << 48)) *
                       static_cast<double>(ElementSize(call.dtype) + 8);
  TracedOperator traced = Traced(
      OpaqueOp{static_cast<int64_t>(bytes * reads), static_cast<int64_t>(bytes * writes)}, call);
  traced.assumed = true;  // along which dimension, the call's shapes do not say
  return traced;
}

}  // namespace

Result LayerNormForward(const Call& call) {
  if (!call.in_ok(1)) return std::nullopt;
  const TensorShape& x = call.in[0];
  // Normalised over the dimensions of gamma where it is there, else over the last.
  const size_t trailing = call.in_ok(2) ? call.in[1].dims.size() : 1;
  if (trailing > x.dims.size()) return std::nullopt;
  const int64_t rows = LeadingElements(x, trailing);
  return Traced(LayerNormOp{rows, rows > 0 ? Elements(x) / rows : 0}, call);
}

Result LayerNormBackward(const Call& call) {  // dy, x, mean, rstd, gamma, beta
  if (!call.in_ok(4)) return std::nullopt;
  const int64_t rows = Elements(call.in[2]);
  if (rows <= 0) return std::nullopt;
  return Backward(LayerNormOp{rows, Elements(call.in[1]) / rows}, call);
}

// Of channels in groups (aten/src/ATen/native/cuda/group_norm_kernel.cu): one kernel reads all for
// the statistics, one of the few channels makes them factors, and one reads all again and writes.
Result GroupNorm(const Call& call) {
  if (!call.in_ok(1)) return std::nullopt;
  const int64_t bytes = SaturatingProduct({Elements(call.in[0]), ElementSize(call.dtype)});
  return Traced(OpaqueOp{SaturatingProduct({2, bytes}), bytes}, call);
}

// dy, x, mean, rstd, gamma: reads both twice, for the sums and for the gradient.
Result GroupNormBackward(const Call& call) {
  if (!call.in_ok(2)) return std::nullopt;
  const int64_t bytes = SaturatingProduct({Elements(call.in[1]), ElementSize(call.dtype)});
  return Backward(OpaqueOp{SaturatingProduct({4, bytes}), bytes}, call);
}

Result BatchNormForward(const Call& call) {
  return call.in_ok(1) ? BatchNorm(call.in[0], call, Direction::kForward) : Result();
}
Result BatchNormBackward(const Call& call) {
  return call.in_ok(2) ? BatchNorm(call.in[1], call, Direction::kBackward) : Result();
}
Result BatchNormBackwardInputFirst(const Call& call) {
  return call.in_ok(2) ? BatchNorm(call.in[0], call, Direction::kBackward) : Result();
}

Result SoftmaxForward(const Call& call) {
  return call.in_ok(1) ? Softmax(call.in[0], call, Direction::kForward) : Result();
}
Result SoftmaxBackward(const Call& call) {
  return call.in_ok(1) ? Softmax(call.in[0], call, Direction::kBackward) : Result();
}

Result OfLogarithm(Result softmax) {
  if (softmax) std::get<SoftmaxOp>(softmax->op.shape).logarithm = true;
  return softmax;
}

// Of the scores of all classes the chosen one of each sample alone is read, or written.
Result ChosenScores(const Call& call) {
  const auto scores =
      std::ranges::max_element(call.in, {}, [](const TensorShape& t) { return Elements(t); });
  if (scores == call.in.end() || scores->dims.empty()) return std::nullopt;
  const int64_t classes = scores->dims.size() == 1 ? scores->dims[0] : scores->dims[1];
  if (classes <= 0) return std::nullopt;
  return Traced(ReductionOp{1, std::max<int64_t>(Elements(*scores) / classes, 1)}, call);
}

// A block sorts rows of up to 4,096 elements in its shared memory; longer ones take a pass for
// every eight bits of a key (aten/src/ATen/native/cuda/Sort.cpp, CUB's onesweep).
Result Sorted(const Call& call) {
  if (!call.in_ok(1)) return std::nullopt;
  constexpr int64_t kRowOfBlock = 4096;
  const int64_t elements = Elements(call.in[0]);
  const double passes = call.in[0].dims.back() <= kRowOfBlock
                            ? 1
                            : static_cast<double>(std::max<int64_t>(ElementSize(call.dtype), 1));
  return Passes(elements, passes, passes, call);
}

// The k-th value is found by two bits of the keys a pass, then what is beyond it is gathered in two
// (aten/src/ATen/native/cuda/SortingRadixSelect.cuh). Later passes find short rows in a cache.
Result Largest(const Call& call) {
  if (!call.in_ok(1)) return std::nullopt;
  return Passes(Elements(call.in[0]), 2, 0.1, call);
}

}  // namespace foretrace::trace_call
