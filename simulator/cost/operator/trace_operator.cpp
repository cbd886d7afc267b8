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
    {"_weight_int4pack_mm", [](const Call& c) { return WeightsInFewBits("int4", c); }},
    {"_weight_int8pack_mm", [](const Call& c) { return WeightsInFewBits("int8", c); }},
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
    {"_fft_c2c", FourierTransform},
    {"_fft_r2c", FourierTransform},
    {"_fft_c2r", FourierTransform},
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
    {"index_reduce_", IndexPut},
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
  if (const auto scan = SelectiveScan(name, CallOf(inputs, outputs))) return scan;
  // A generated kernel's name lists the operators that it begins or ends for, and computes none.
  if (name.starts_with(kGenerated)) return std::nullopt;
  if (!name.starts_with(kNamespace)) return ServingCall(name, CallOf(inputs, outputs));
  name.remove_prefix(kNamespace.size());
  const Call call = CallOf(inputs, outputs);
  for (const Rule& rule : kRules) {
    if (rule.name == name) return rule.make(call);
  }
  if (name.starts_with("_foreach_")) return ForeachStep(name.substr(9), call);
  if (name == "_amp_foreach_non_finite_check_and_unscale_") return ForeachStep("mul_", call);
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
