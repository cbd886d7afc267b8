#include "simulator/backends/operator_work.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <string_view>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"

namespace foretrace {
namespace {

template <size_t N>
bool OneOf(std::string_view type, const std::array<std::string_view, N>& types) {
  return std::ranges::find(types, type) != types.end();
}

bool IsUnary(std::string_view type) {
  return OneOf(type,
               std::array<std::string_view, 10>{"relu", "sigmoid", "tanh", "gelu", "sqrt", "exp",
                                                "silu", "dropout", "cast", "upsampling"});
}
bool IsBinary(std::string_view type) {
  return OneOf(type, std::array<std::string_view, 8>{"add", "biasadd", "multiply", "subtract",
                                                     "divide", "maximum", "minimum", "residual"});
}

int64_t Product(const std::vector<int32_t>& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, [](int64_t a, int32_t b) {
    return SaturatingProduct({a, b});
  });
}

// "3x3" -> {3, 3}; empty where it is no such text.
std::vector<int64_t> Attribute(const DagOp& op, const char* key) {
  std::vector<int64_t> values;
  const auto found = op.attributes.find(key);
  if (found == op.attributes.end()) return values;
  for (const absl::string_view part : absl::StrSplit(found->second, 'x')) {
    int64_t value = 0;
    if (!absl::SimpleAtoi(part, &value) || value < 1) return {};
    values.push_back(value);
  }
  return values;
}

// One operator of a network.
class Caller {
 public:
  Caller(const std::vector<DagOp>& ops, const std::vector<OperatorSizes>& sizes, size_t at)
      : op_(ops[at]), sizes_(sizes), in_(sizes[at].input), out_(sizes[at].output) {}

  std::optional<OperatorCall::Shape> Shape() const {
    if (in_.empty() || out_.empty()) return std::nullopt;
    const std::string& type = op_.type;
    const int64_t results = Product(out_), operands = Product(in_);
    const int64_t last = in_.back(), rows = operands / std::max<int64_t>(last, 1);
    if (type == "conv2d" || type == "conv3d") return Convolution();
    if (type == "dense" || type == "matmul") return LinearOp{rows, out_.back(), last};
    if (type == "batch_matmul" && in_.size() == 3 && out_.size() == 3) {
      return BatchedMatmulOp{in_[0], in_[1], out_[2], in_[2]};
    }
    if (type == "softmax") return SoftmaxOp{rows, last};
    if (type == "layer_norm") return LayerNormOp{rows, last};
    if (type == "mean" || type == "sum" || type == "global_avgpool2d" ||
        type == "global_avgpool3d" || type == "global_avgpool") {
      return ReductionOp{results, operands / std::max<int64_t>(results, 1)};
    }
    if (type.starts_with("avgpool") || type.starts_with("maxpool")) {
      const std::vector<int64_t> window = Attribute(op_, "pool_size");
      if (window.empty()) return std::nullopt;
      return PoolOp{operands, results,
                    std::accumulate(window.begin(), window.end(), int64_t{1}, std::multiplies<>()),
                    false};
    }
    if (type == "concat") return ConcatOp{results, static_cast<int64_t>(op_.inputs.size())};
    if (type == "reshape") return CopyOp{results, false};
    if (type == "transpose") return CopyOp{results, true};
    if (IsUnary(type)) return ElementwiseOp{results, operands};
    if (IsBinary(type)) return ElementwiseOp{results, operands + SecondOperand(results)};
    return std::nullopt;
  }

 private:
  std::optional<OperatorCall::Shape> Convolution() const {
    const std::vector<int64_t> kernel = Attribute(op_, "kernel_size");
    const std::vector<int64_t> groups = Attribute(op_, "groups");
    const size_t dimensions = op_.type == "conv2d" ? 2 : 3;
    if (kernel.size() != dimensions || groups.size() != 1 || in_.size() != dimensions + 2 ||
        out_.size() != dimensions + 2) {
      return std::nullopt;
    }
    Conv2dOp conv;
    const size_t rest = dimensions - 2;  // leading dimensions beyond two
    conv.n = int64_t{in_[0]} * (rest > 0 ? out_[2] : 1);
    conv.c = int64_t{in_[1]} * (rest > 0 ? kernel[0] : 1);
    conv.h = in_[2 + rest];
    conv.w = in_[3 + rest];
    conv.k = out_[1];
    conv.r = kernel[rest];
    conv.s = kernel[rest + 1];
    conv.oh = out_[2 + rest];
    conv.ow = out_[3 + rest];
    conv.groups = groups[0];
    return conv;
  }

  int64_t SecondOperand(int64_t results) const {
    if (op_.type == "biasadd") return out_.size() > 1 ? out_[1] : out_[0];
    int64_t most = out_.back();
    if (op_.inputs.size() > 1 && op_.inputs[1] != kNoProducer) {
      const OperatorSizes& producer = sizes_[static_cast<size_t>(op_.inputs[1])];
      if (!producer.output.empty()) most = Product(producer.output);
    }
    return std::min(most, results);
  }

  const DagOp& op_;
  const std::vector<OperatorSizes>& sizes_;
  const std::vector<int32_t>& in_;
  const std::vector<int32_t>& out_;
};

std::vector<KernelWork> KernelsOf(const DagOp& op) {
  std::vector<KernelWork> kernels;
  for (const OperatorCall& call : op.calls) {
    const KernelList of_call = Kernels(call);
    kernels.insert(kernels.end(), of_call.begin(), of_call.end());
  }
  return kernels;
}

// Two products around a softmax, as one operator; nullopt: it is no such group.
std::optional<OperatorCall> FusedAttention(const OperatorDag& dag,
                                           const std::vector<int32_t>& ops) {
  const OperatorCall* first = nullptr;
  int products = 0, others = 0;
  bool softmax = false;
  for (const int32_t id : ops) {
    for (const OperatorCall& call : dag.op(id).calls) {
      if (std::holds_alternative<BatchedMatmulOp>(call.shape)) {
        if (first == nullptr) first = &call;
        ++products;
      }
      others += std::holds_alternative<LinearOp>(call.shape) ||
                std::holds_alternative<Conv2dOp>(call.shape);
      softmax = softmax || std::holds_alternative<SoftmaxOp>(call.shape);
    }
  }
  if (products != 2 || others > 0 || !softmax) return std::nullopt;
  const auto& scores = std::get<BatchedMatmulOp>(first->shape);
  AttentionOp attention{1, scores.b, scores.b, scores.m, scores.n, scores.k};
  return OperatorCall{attention, first->dtype, Direction::kForward};
}

}  // namespace

std::vector<OperatorCall> CallsOf(const std::vector<DagOp>& ops,
                                  const std::vector<OperatorSizes>& sizes, size_t at, DType dtype) {
  const std::optional<OperatorCall::Shape> shape = Caller(ops, sizes, at).Shape();
  if (!shape.has_value()) return {};
  return {OperatorCall{*shape, dtype, Direction::kForward}};
}

std::vector<KernelWork> GroupKernels(const OperatorDag& dag, const std::vector<int32_t>& ops) {
  if (ops.size() == 1) return KernelsOf(dag.op(ops.front()));
  if (const std::optional<OperatorCall> attention = FusedAttention(dag, ops)) {
    const KernelList kernels = Kernels(*attention);
    return {kernels.begin(), kernels.end()};
  }
  KernelWork fused;
  double most = -1, flop = 0;
  int64_t read = 0, written = 0;
  for (const int32_t id : ops) {
    const std::vector<KernelWork> kernels = KernelsOf(dag.op(id));
    if (kernels.empty()) return {};
    for (const KernelWork& work : kernels) {
      flop += work.flop.count();
      read += work.read.count();
      // Of equal arithmetic the last, whose result is written.
      if (work.flop.count() >= most) {
        most = work.flop.count();
        fused = work;
      }
    }
    const int64_t result = kernels.back().written.count();
    if (id == ops.back()) {
      written = result;
      continue;
    }
    for (const int32_t reader : dag.consumers(id)) {
      const auto times = std::ranges::count(dag.op(reader).inputs, id);
      if (std::ranges::binary_search(ops, reader)) read -= times * result;
    }
  }
  fused.flop = Flop(flop);
  fused.read = Bytes(std::max<int64_t>(read, 0));
  fused.written = Bytes(written);
  return {fused};
}

std::optional<Estimate> EstimateGroup(const OperatorDag& dag, const std::vector<int32_t>& ops,
                                      const KernelTimer& timer) {
  const std::vector<KernelWork> kernels = GroupKernels(dag, ops);
  if (kernels.empty()) return std::nullopt;
  Estimate sum{SimTime(), EstimateSource::kRecorded, false};
  for (const KernelWork& work : kernels) {
    const Estimate one = timer(work);
    if (one.source == EstimateSource::kMissing) return std::nullopt;
    sum.time += one.time;
    sum.source = std::max(sum.source, one.source);
    sum.extrapolated = sum.extrapolated || one.extrapolated;
  }
  return sum;
}

}  // namespace foretrace
