// Calls that move or compute elements one by one, or add them up.
#include <algorithm>
#include <array>
#include <iterator>
#include <vector>

#include "simulator/cost/operator/elementwise_table.h"
#include "simulator/cost/operator/trace_call.h"

namespace foretrace::trace_call {
namespace {

int64_t BroadcastElements(std::span<const TensorShape> tensors) {
  size_t rank = 0;
  for (const TensorShape& t : tensors) rank = std::max(rank, t.dims.size());
  int64_t product = 1;
  for (size_t i = 0; i < rank; ++i) {  // from the last dimension
    int64_t size = 1;
    for (const TensorShape& t : tensors) {
      if (i < t.dims.size()) size = std::max(size, t.dims[t.dims.size() - 1 - i]);
    }
    product = SaturatingProduct({product, size});
  }
  return product;
}

// See ElementAccess::dimensions.
int64_t IndexDimensions(std::span<const TensorShape> tensors) {
  size_t rank = 0;
  for (const TensorShape& t : tensors) rank = std::max(rank, t.dims.size());
  int64_t dimensions = 0, merged = 0;
  bool broadcast = false;
  std::vector<bool> before(tensors.size());
  for (size_t i = 0; i < rank; ++i) {
    std::vector<bool> has(tensors.size());
    for (size_t t = 0; t < tensors.size(); ++t) {
      const auto dims = tensors[t].dims;
      has[t] = i < dims.size() && dims[dims.size() - 1 - i] > 1;
    }
    const auto lacking = std::ranges::count(has, false);
    if (lacking == std::ssize(has)) continue;
    broadcast |= lacking > 0;
    ++dimensions;
    if (has != before) ++merged;
    before = std::move(has);
  }
  return broadcast ? merged : dimensions;
}

Result Pool(const Call& call, Direction pass) {
  if (call.in.empty()) return std::nullopt;
  PoolOp op;
  const TensorShape* y = pass == Direction::kBackward ? &call.in[0]
                         : call.out.empty()           ? nullptr
                                                      : &call.out[0];
  const TensorShape& x = pass == Direction::kBackward && call.in_ok(2) ? call.in[1] : call.in[0];
  op.input_elements = Elements(x);
  op.output_elements = y != nullptr ? Elements(*y) : op.input_elements / 4;
  TracedOperator traced = Traced(op, call, pass);
  traced.assumed = y == nullptr;
  return traced;
}

Result AveragePool(const Call& call, Direction pass) {
  Result traced = Pool(call, pass);
  if (traced) std::get<PoolOp>(traced->op.shape).saves_indices = false;
  return traced;
}

}  // namespace

Result Elementwise(const ElementwiseTraits& traits, const Call& call, bool scalar_second,
                   bool has_scalars) {
  if (call.in.empty()) {
    if (!has_scalars) return std::nullopt;
    return Traced(ElementwiseOp{1, traits.operands, traits.outputs, traits.flop}, call);
  }
  const size_t most = scalar_second ? 1 : static_cast<size_t>(traits.operands);
  const std::span<const TensorShape> operands(call.in.data(), std::min(most, call.in.size()));
  ElementwiseOp op;
  op.elements = BroadcastElements(operands);
  for (const TensorShape& t : operands) op.read_elements += std::min(Elements(t), op.elements);
  op.flop_per_element = traits.flop;
  op.outputs = traits.outputs;
  if (!call.out.empty()) op.output_dtype = call.out[0].dtype;
  TracedOperator traced = Traced(op, call);
  traced.access = {op.elements, std::ssize(operands) + op.outputs, IndexDimensions(operands)};
  return traced;
}

Result Reduction(const Call& call) {
  if (call.in.empty()) return std::nullopt;
  const int64_t total = Elements(call.in[0]);
  if (!call.out.empty()) {
    const int64_t results = std::max<int64_t>(Elements(call.out[0]), 1);
    const auto &from = call.in[0].dims, &to = call.out[0].dims;
    // Down the columns where the last dimension remains.
    const bool across_rows =
        from.size() >= 2 && from.back() > 1 && to.back() == from.back() && results < total;
    return Traced(ReductionOp{results, total / results, across_rows}, call);
  }
  // Without the result's shape: a matrix is summed down its columns (bias gradients), anything else
  // to a scalar, as one of a single row is; the bytes are much the same.
  const auto& dims = call.in[0].dims;
  if (dims.size() == 2 && dims[0] != 1) return Traced(ReductionOp{dims[1], dims[0], true}, call);
  return Traced(ReductionOp{1, total}, call);
}

Result Copy(const Call& call) {
  if (!call.in_ok(2)) return std::nullopt;
  CopyOp op;
  op.elements = Elements(call.in[0]);
  op.output_dtype = call.in[0].dtype;
  TracedOperator traced = Traced(op, call);
  if (call.in[1].dtype != DType::kUnknown) traced.op.dtype = call.in[1].dtype;
  const std::array<TensorShape, 2> both = {call.in[0], call.in[1]};
  traced.access = {op.elements, 2, IndexDimensions(both)};
  return traced;
}

Result CumulativeSum(const Call& call) {
  if (!call.in_ok(1)) return std::nullopt;
  const int64_t elements = Elements(call.in[0]);
  ElementwiseOp op{elements, elements};
  if (!call.out.empty()) op.output_dtype = call.out[0].dtype;
  TracedOperator traced = Traced(op, call);
  traced.access.elements = elements;
  traced.access.rows = LeadingElements(call.in[0], 1);  // where the last dimension is summed along
  return traced;
}

// cuFFT's kernels each take the whole tensor by a factor of its length.
Result FourierTransform(const Call& call) {
  if (!call.in_ok(1)) return std::nullopt;
  const int64_t bytes = SaturatingProduct({Elements(call.in[0]), ElementSize(call.dtype)});
  TracedOperator traced = Traced(OpaqueOp{bytes, bytes}, call);
  traced.weighed = traced.every_kernel = true;
  return traced;
}

Result Concat(const Call& call) {
  if (call.out.empty() && call.in.empty()) return std::nullopt;  // Kineto's lists lack shapes
  const int64_t elements = call.out.empty() ? TotalElements(call.in) : Elements(call.out[0]);
  TracedOperator traced = Traced(ConcatOp{elements, static_cast<int64_t>(call.in.size())}, call);
  traced.access.elements = elements;
  for (const TensorShape& t : call.in) {
    traced.access.largest = std::max(traced.access.largest, std::min(Elements(t), elements));
  }
  return traced;
}

Result MaxPool(const Call& call) { return Pool(call, Direction::kForward); }
Result MaxPoolBackward(const Call& call) { return Pool(call, Direction::kBackward); }
Result AveragePoolForward(const Call& call) { return AveragePool(call, Direction::kForward); }
Result AveragePoolBackward(const Call& call) { return AveragePool(call, Direction::kBackward); }

Result Fill(const Call& call) {
  if (!call.in_ok(1)) return std::nullopt;
  return Traced(FillOp{Elements(call.in[0])}, call);
}

}  // namespace foretrace::trace_call
