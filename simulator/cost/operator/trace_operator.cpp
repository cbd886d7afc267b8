#include "simulator/cost/operator/trace_operator.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <vector>

#include "simulator/cost/operator/elementwise_table.h"
#include "simulator/cost/operator/kernel_work.h"
#include "simulator/cost/operator/trace_call.h"

namespace foretrace {

using namespace trace_call;  // NOLINT: the rules below are all about calls

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

// `has_scalars`: without shapes its arguments are single values.
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
  // to a scalar; the bytes are much the same.
  const auto& dims = call.in[0].dims;
  if (dims.size() == 2) return Traced(ReductionOp{dims[1], dims[0], true}, call);
  return Traced(ReductionOp{1, total}, call);
}

Result Copy(const Call& call) {  // destination, source
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

// Reads its one tensor and writes as much.
Result CumulativeSum(const Call& call) {
  if (!call.in_ok(1)) return std::nullopt;
  const int64_t elements = Elements(call.in[0]);
  ElementwiseOp op{elements, elements};
  if (!call.out.empty()) op.output_dtype = call.out[0].dtype;
  return Traced(op, call);
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

Result MaxPool(const Call& call) { return Pool(call, Direction::kForward); }
Result MaxPoolBackward(const Call& call) { return Pool(call, Direction::kBackward); }
Result AveragePool(const Call& call, Direction pass) {
  Result traced = Pool(call, pass);
  if (traced) std::get<PoolOp>(traced->op.shape).saves_indices = false;
  return traced;
}
Result AveragePoolForward(const Call& call) { return AveragePool(call, Direction::kForward); }
Result AveragePoolBackward(const Call& call) { return AveragePool(call, Direction::kBackward); }

Result Fill(const Call& call) {
  if (!call.in_ok(1)) return std::nullopt;
  return Traced(FillOp{Elements(call.in[0])}, call);
}

Call CallOf(std::span<const TensorShape> inputs, std::span<const TensorShape> outputs) {
  Call call;
  for (const TensorShape& t : inputs) {
    if (!t.dims.empty()) call.in.push_back(t);
  }
  for (const TensorShape& t : outputs) {
    if (!t.dims.empty()) call.out.push_back(t);
  }
  for (const TensorShape& t : call.in) {
    if (t.dtype != DType::kUnknown) {
      call.dtype = t.dtype;
      break;
    }
  }
  return call;
}

constexpr std::string_view kGenerated = "triton_";  // by PyTorch's compiler

// Generated kernels, and operators of serving engines.
bool GivenItsResults(std::string_view name) {
  return std::ranges::any_of(
      std::array<std::string_view, 4>{kGenerated, "_C", "_moe_C::", "sgl_kernel::"},
      [&](std::string_view prefix) { return name.starts_with(prefix); });
}

struct Rule {
  std::string_view name;
  Result (*make)(const Call&);
};

// Names without "aten::", one line for each call or family. Linear search is fine: callers look a
// name up once a distinct op, not once a node.
constexpr Rule kRules[] = {
    {"addmm", [](const Call& c) { return Matmul(c, true); }},
    {"mm", [](const Call& c) { return Matmul(c, false); }},
    {"_addmm_activation", [](const Call& c) { return Matmul(c, true); }},
    {"linear", Linear},
    {"bmm", BatchedMatmul},
    {"baddbmm", BatchedMatmul},
    {"cudnn_convolution", ConvolutionForward},
    {"miopen_convolution", ConvolutionForward},
    {"mkldnn_convolution", ConvolutionForward},
    {"_convolution", ConvolutionForward},
    {"convolution", ConvolutionForward},
    {"conv1d", ConvolutionForward},
    {"conv2d", ConvolutionForward},
    {"conv3d", ConvolutionForward},
    {"addmv", MatrixVector},
    {"mv", MatrixVector},
    {"_int_mm", [](const Call& c) { return Matmul(c, false); }},
    {"_scaled_mm", ScaledMatmul},
    {"_grouped_mm", GroupedMatmul},
    {"_scaled_grouped_mm", GroupedMatmul},
    {"cudnn_convolution_relu", ConvolutionForward},
    {"cudnn_convolution_add_relu", ConvolutionForward},
    {"miopen_convolution_relu", ConvolutionForward},
    {"miopen_convolution_add_relu", ConvolutionForward},
    {"miopen_depthwise_convolution", ConvolutionForward},
    {"_conv_depthwise2d", ConvolutionForward},
    {"conv_depthwise3d", ConvolutionForward},
    {"_slow_conv2d_forward", ConvolutionForward},
    {"slow_conv3d_forward", ConvolutionForward},
    {"cudnn_convolution_transpose", TransposedConvolution},
    {"miopen_convolution_transpose", TransposedConvolution},
    {"slow_conv_transpose2d", TransposedConvolution},
    {"slow_conv_transpose3d", TransposedConvolution},
    {"convolution_backward", [](const Call& c) { return ConvolutionBackward(c, false); }},
    {"cudnn_convolution_backward", [](const Call& c) { return ConvolutionBackward(c, true); }},
    {"miopen_convolution_backward", [](const Call& c) { return ConvolutionBackward(c, true); }},
    {"_scaled_dot_product_flash_attention",
     [](const Call& c) { return Attention(c, 0, Direction::kForward, true); }},
    {"_scaled_dot_product_efficient_attention",
     [](const Call& c) { return Attention(c, 0, Direction::kForward, true); }},
    {"_scaled_dot_product_cudnn_attention",
     [](const Call& c) { return Attention(c, 0, Direction::kForward, true); }},
    {"_scaled_dot_product_flash_attention_backward",
     [](const Call& c) { return Attention(c, 1, Direction::kBackward, true); }},
    {"_scaled_dot_product_efficient_attention_backward",
     [](const Call& c) { return Attention(c, 1, Direction::kBackward, true); }},
    {"_scaled_dot_product_cudnn_attention_backward",
     [](const Call& c) { return Attention(c, 1, Direction::kBackward, true); }},
    {"_flash_attention_forward",
     [](const Call& c) { return Attention(c, 0, Direction::kForward, false); }},
    {"_flash_attention_backward",
     [](const Call& c) { return Attention(c, 1, Direction::kBackward, false); }},
    {"_efficient_attention_forward",
     [](const Call& c) { return Attention(c, 0, Direction::kForward, false); }},
    {"_efficient_attention_backward",
     [](const Call& c) { return Attention(c, 1, Direction::kBackward, false); }},
    {"layer_norm", LayerNormForward},
    {"native_layer_norm", LayerNormForward},
    {"native_layer_norm_backward", LayerNormBackward},
    {"_fused_rms_norm", LayerNormForward},
    {"_fused_rms_norm_backward", LayerNormBackward},
    {"native_group_norm", GroupNorm},
    {"native_group_norm_backward", GroupNormBackward},
    {"native_batch_norm", BatchNormForward},
    {"_native_batch_norm_legit", BatchNormForward},
    {"_native_batch_norm_legit_no_training", BatchNormForward},
    {"_batch_norm_with_update", BatchNormForward},
    {"cudnn_batch_norm", BatchNormForward},
    {"miopen_batch_norm", BatchNormForward},
    {"native_batch_norm_backward", BatchNormBackward},
    {"batch_norm_backward", BatchNormBackward},
    {"cudnn_batch_norm_backward", BatchNormBackwardInputFirst},
    {"miopen_batch_norm_backward", BatchNormBackwardInputFirst},
    {"_softmax", SoftmaxForward},
    {"_log_softmax", [](const Call& c) { return OfLogarithm(SoftmaxForward(c)); }},
    {"_masked_softmax", SoftmaxForward},
    {"_softmax_backward_data", SoftmaxBackward},
    {"_log_softmax_backward_data", [](const Call& c) { return OfLogarithm(SoftmaxBackward(c)); }},
    {"nll_loss_forward", ChosenScores},
    {"nll_loss2d_forward", ChosenScores},
    {"nll_loss_backward", ChosenScores},
    {"nll_loss2d_backward", ChosenScores},
    {"native_dropout",
     [](const Call& c) {
       return c.in_ok(1) ? Result(Traced(DropoutOp{Elements(c.in[0])}, c)) : Result();
     }},
    {"native_dropout_backward",
     [](const Call& c) {
       return c.in_ok(1) ? Result(Backward(DropoutOp{Elements(c.in[0])}, c)) : Result();
     }},
    {"_fused_dropout",
     [](const Call& c) {
       return c.in_ok(1) ? Result(Traced(DropoutOp{Elements(c.in[0])}, c)) : Result();
     }},
    {"sum", Reduction},
    {"mean", Reduction},
    {"max", Reduction},
    {"min", Reduction},
    {"amax", Reduction},
    {"amin", Reduction},
    {"norm", Reduction},
    {"linalg_vector_norm", Reduction},
    {"argmax", Reduction},
    {"argmin", Reduction},
    {"aminmax", Reduction},
    {"prod", Reduction},
    {"nansum", Reduction},
    {"logsumexp", Reduction},
    {"count_nonzero", Reduction},
    {"std", Reduction},
    {"var", Reduction},
    {"std_mean", Reduction},
    {"var_mean", Reduction},
    {"any", Reduction},
    {"all", Reduction},
    {"cumsum", CumulativeSum},
    {"cumprod", CumulativeSum},
    {"logcumsumexp", CumulativeSum},
    {"sort", Sorted},
    {"topk", Largest},
    {"kthvalue", Largest},
    {"cat", Concat},
    {"_cat", Concat},
    {"stack", Concat},
    {"copy_", Copy},
    {"fill_", Fill},
    {"zero_", Fill},
    {"uniform_", Fill},
    {"normal_", Fill},
    {"random_", Fill},
    {"exponential_", Fill},
    {"bernoulli_", Fill},
    {"index", [](const Call& c) { return Gather(c, Direction::kForward); }},
    {"index_select", SelectRows},
    {"gather", [](const Call& c) { return Gather(c, Direction::kForward); }},
    {"embedding", EmbeddingRows},
    {"embedding_dense_backward", EmbeddingBagBackward},
    {"_embedding_bag", EmbeddingBag},
    {"_embedding_bag_forward_only", EmbeddingBag},
    {"_embedding_bag_dense_backward", EmbeddingBagBackward},
    {"tril", [](const Call& c) { return Gather(c, Direction::kForward); }},
    {"triu", [](const Call& c) { return Gather(c, Direction::kForward); }},
    {"_index_put_impl_", IndexPut},
    {"index_add_", IndexPut},
    {"index_copy_", IndexPut},
    {"scatter_", IndexPut},
    {"scatter_add_", IndexPut},
    {"scatter_reduce_", IndexPut},
    {"max_pool2d_with_indices", MaxPool},
    {"max_pool3d_with_indices", MaxPool},
    {"avg_pool2d", AveragePoolForward},
    {"avg_pool3d", AveragePoolForward},
    {"_adaptive_avg_pool2d", AveragePoolForward},
    {"_adaptive_avg_pool3d", AveragePoolForward},
    {"adaptive_max_pool2d", MaxPool},
    {"max_pool2d_with_indices_backward", MaxPoolBackward},
    {"max_pool3d_with_indices_backward", MaxPoolBackward},
    {"avg_pool2d_backward", AveragePoolBackward},
    {"avg_pool3d_backward", AveragePoolBackward},
    {"_adaptive_avg_pool2d_backward", AveragePoolBackward},
};

}  // namespace

Result OperatorFromTrace(std::string_view name, std::span<const TensorShape> inputs,
                         std::span<const TensorShape> outputs) {
  constexpr std::string_view kNamespace = "aten::";
  if (name.find("embedding_codegen_lookup") != name.npos ||
      name.find("SplitLookupFunction") != name.npos) {
    return BatchedLookup(name, CallOf(inputs, outputs));
  }
  // A generated kernel's name lists the operators that it begins or ends for, and computes none.
  if (name.starts_with(kGenerated)) return std::nullopt;
  if (!name.starts_with(kNamespace)) return ServingCall(name, CallOf(inputs, outputs));
  name.remove_prefix(kNamespace.size());
  const Call call = CallOf(inputs, outputs);
  for (const Rule& rule : kRules) {
    if (rule.name == name) return rule.make(call);
  }
  if (name.starts_with("_foreach_")) return ForeachStep(name.substr(9), call);
  if (name.starts_with("_fused_")) return FusedStep(name.substr(7), call);
  if (const auto traits = FindElementwise(name)) {
    // A scalar second argument: what follows it can only be an out= tensor.
    const bool scalar_second = inputs.size() >= 2 && inputs[1].dims.empty();
    return Elementwise(*traits, call, scalar_second && traits->operands == 2, !inputs.empty());
  }
  return std::nullopt;
}

Result OpaqueOperator(std::string_view name, std::span<const TensorShape> inputs,
                      std::span<const TensorShape> outputs) {
  for (std::string_view part :
       {"embedding", "lookup", "gather", "index", "Lookup", "paged", "cache", "Compiled"}) {
    if (name.find(part) != name.npos) return std::nullopt;
  }
  const Call call = CallOf(inputs, outputs);
  const auto bytes_of = [](const TensorShape& t) {
    return SaturatingProduct({Elements(t), ElementSize(t.dtype)});
  };
  OpaqueOp op;
  int64_t largest = 0, most_elements = 0, rows = 0;
  for (const TensorShape& t : call.in) {
    op.read_bytes += std::min(bytes_of(t), (int64_t{1} << 62) - op.read_bytes);
    largest = std::max(largest, bytes_of(t));
    if (Elements(t) <= most_elements) continue;
    most_elements = Elements(t);
    rows = LeadingElements(t, 1);
  }
  for (const TensorShape& t : call.out) {
    op.written_bytes += std::min(bytes_of(t), (int64_t{1} << 62) - op.written_bytes);
  }
  if (op.written_bytes == 0) {
    op.written_bytes = largest;
    // These have their results among their arguments.
    if (GivenItsResults(name)) op.read_bytes -= largest;
  }
  if (op.written_bytes == 0) return std::nullopt;
  TracedOperator traced = Traced(op, call);
  traced.access.largest = most_elements;
  traced.access.rows = rows;
  traced.assumed = true;
  return traced;
}

}  // namespace foretrace
