#include "simulator/calibrate/kernel/benchmark_operator.h"

#include <algorithm>
#include <variant>

#include "simulator/base/error.h"
#include "simulator/cost/operator/elementwise_table.h"

namespace foretrace {
namespace {

using Row = BenchmarkRow;

int64_t Value(const Row& row, std::string_view key, int64_t otherwise = 0) {
  return row.shape.Int(key).value_or(otherwise);
}

OperatorCall::Shape Convolution(const Row& row) {
  Conv2dOp op{Value(row, "n"), Value(row, "c"), Value(row, "h"), Value(row, "w"),
              Value(row, "k"), Value(row, "r"), Value(row, "s")};
  const int64_t stride = std::max<int64_t>(Value(row, "stride"), 1);
  const int64_t pad = Value(row, "pad"), dilation = Value(row, "dilation");
  op.oh = ConvOutputSize(op.h, op.r, stride, pad, dilation);
  op.ow = ConvOutputSize(op.w, op.s, stride, pad, dilation);
  op.groups = Value(row, "groups", 1);
  const std::string_view gradient = row.shape.Text("gradient").value_or("");
  op.needs_input_gradient = gradient != "weight";
  op.needs_weight_gradient = gradient != "input";
  return op;
}

OperatorCall::Shape Optimizer(const Row& row) {
  OptimizerOp op{Value(row, "params"), Value(row, "tensors", 1)};
  const std::string_view kind = row.shape.Text("op").value_or("sgd");
  op.kind = kind == "adam"       ? OptimizerKind::kAdam
            : kind == "adagrad"  ? OptimizerKind::kAdagrad
            : kind == "momentum" ? OptimizerKind::kSgdMomentum
                                 : OptimizerKind::kSgd;
  const std::string_view impl = row.shape.Text("impl").value_or("foreach");
  op.impl = impl == "fused"  ? OptimizerImpl::kFused
            : impl == "loop" ? OptimizerImpl::kLoop
                             : OptimizerImpl::kForeach;
  return op;
}

// Gradients read the results' and what was kept. Their names are the framework's.
OperatorCall::Shape Elementwise(const Row& row) {
  const int64_t elements = Value(row, "elements");
  std::string name(row.shape.Text("op").value_or(""));
  ElementwiseOp op{elements, SaturatingProduct({elements, Value(row, "inputs", 1)})};
  if (row.phase == Phase::kBackward) {
    name = name == "relu" ? "threshold_backward" : name + "_backward";
  }
  const auto traits = FindElementwise(name);
  if (!traits) return op;
  op.flop_per_element = traits->flop;
  if (row.phase == Phase::kBackward) {
    op.read_elements = SaturatingProduct({elements, traits->operands});
  }
  return op;
}

// Lower triangles by two lists of indices, element by element.
OperatorCall::Shape Triangles(const Row& row) {
  const int64_t n = Value(row, "n");
  const int64_t picked = SaturatingProduct({Value(row, "b"), n, n - 1}) / 2;
  return IndexOp{picked, picked, SaturatingProduct({Value(row, "b"), n, n})};
}

OperatorCall::Shape Memcpy(const Row& row) {
  MemcpyOp op{Value(row, "bytes")};
  const std::string_view direction = row.shape.Text("direction").value_or("dtod");
  op.direction = direction == "htod"   ? CopyDirection::kHostToDevice
                 : direction == "dtoh" ? CopyDirection::kDeviceToHost
                 : direction == "htoh" ? CopyDirection::kHostToHost
                                       : CopyDirection::kDeviceToDevice;
  op.pinned = Value(row, "pinned", 1) != 0;
  return op;
}

// "flash2": FlashAttention-2, as PyTorch's flash backend is ("flash" of bench_kernels.py, whose
// libraries are torch-VERSION). "flash" of another library is the best kernel of that.
bool IsFlashAttention2(const Row& row) {
  const std::string_view impl = row.shape.Text("impl").value_or("");
  return impl == "flash2" || (impl == "flash" && row.library.starts_with("torch-"));
}

OperatorCall::Shape Attention(const Row& row) {
  AttentionOp op{Value(row, "b"),  Value(row, "heads"), Value(row, "kv_heads"),
                 Value(row, "sq"), Value(row, "skv"),   Value(row, "d")};
  op.causal = Value(row, "causal") != 0;
  op.flash = row.shape.Text("impl").value_or("").starts_with("flash");
  return op;
}

// FlashAttention-2's kernels multiply by warps, and write gradients of keys and values for each
// query head, which PyTorch then sums over those that share one.
void RunByFlashAttention2(const AttentionOp& op, OperatorCall call, KernelList& kernels) {
  for (KernelWork& work : kernels) work.by_warps = true;
  if (call.pass == Direction::kForward || op.kv_heads < 1 || op.heads <= op.kv_heads) return;
  const int64_t sums = SaturatingProduct({op.b, op.kv_heads, op.skv, op.d});
  call.shape = ReductionOp{sums, op.heads / op.kv_heads, true};
  call.pass = Direction::kForward;
  for (int tensor = 0; tensor < 2; ++tensor) {
    for (const KernelWork& work : Kernels(call)) kernels.push_back(work);
  }
}

struct Rule {
  std::string_view op;
  OperatorCall::Shape (*make)(const Row&);
};

// One line for each operator of the schema that has kernels.
constexpr Rule kRules[] = {
    {"linear",
     [](const Row& r) -> OperatorCall::Shape {
       LinearOp op{Value(r, "m"), Value(r, "n"), Value(r, "k"), Value(r, "bias") != 0};
       op.block_scaled = r.shape.Text("quantised").value_or("") == "block";
       return op;
     }},
    {"bmm",
     [](const Row& r) -> OperatorCall::Shape {
       return BatchedMatmulOp{Value(r, "b"), Value(r, "m"), Value(r, "n"), Value(r, "k")};
     }},
    {"conv2d", Convolution},
    {"attention", Attention},
    {"layer_norm",
     [](const Row& r) -> OperatorCall::Shape {
       return LayerNormOp{Value(r, "rows"), Value(r, "cols")};
     }},
    {"softmax",
     [](const Row& r) -> OperatorCall::Shape {
       return SoftmaxOp{Value(r, "rows"), Value(r, "cols")};
     }},
    {"batch_norm",
     [](const Row& r) -> OperatorCall::Shape {
       return BatchNormOp{Value(r, "n"), Value(r, "c"), Value(r, "h"), Value(r, "w")};
     }},
    {"dropout",
     [](const Row& r) -> OperatorCall::Shape { return DropoutOp{Value(r, "elements")}; }},
    {"elementwise", Elementwise},
    {"reduction",
     [](const Row& r) -> OperatorCall::Shape {
       return ReductionOp{Value(r, "rows"), Value(r, "cols")};
     }},
    {"concat",
     [](const Row& r) -> OperatorCall::Shape {
       return ConcatOp{Value(r, "elements"), Value(r, "parts")};
     }},
    {"copy", [](const Row& r) -> OperatorCall::Shape { return CopyOp{Value(r, "elements")}; }},
    {"transpose",
     [](const Row& r) -> OperatorCall::Shape {
       return CopyOp{SaturatingProduct({Value(r, "b"), Value(r, "m"), Value(r, "n")}), true};
     }},
    {"index",
     [](const Row& r) -> OperatorCall::Shape {
       return IndexOp{SaturatingProduct({Value(r, "n"), Value(r, "cols")}), Value(r, "n"),
                      SaturatingProduct({Value(r, "rows"), Value(r, "cols")})};
     }},
    {"tril", Triangles},
    {"memcpy", Memcpy},
    {"optimizer", Optimizer},
};

}  // namespace

absl::StatusOr<BenchmarkOperator> OperatorOfRow(const BenchmarkRow& row) {
  for (const Rule& rule : kRules) {
    if (rule.op != row.op) continue;
    BenchmarkOperator result;
    const bool tf32 = row.dtype == "tf32";
    result.op.dtype = tf32 ? DType::kFloat32 : ParseDType(row.dtype);
    if (ElementSize(result.op.dtype) == 0) {
      return InvalidInput("line {}: dtype '{}' of {} is not known", row.line, row.dtype, row.op);
    }
    result.precision = PrecisionOf(result.op.dtype, tf32);
    result.op.pass = row.phase == Phase::kBackward ? Direction::kBackward : Direction::kForward;
    result.op.shape = rule.make(row);
    result.kernels = Kernels(result.op);
    if (const auto* attention = std::get_if<AttentionOp>(&result.op.shape)) {
      if (IsFlashAttention2(row)) RunByFlashAttention2(*attention, result.op, result.kernels);
    }
    if (const auto across = row.shape.Int("across")) {
      for (KernelWork& work : result.kernels) {
        work = AcrossReduction(work, static_cast<int>(*across));
      }
    }
    return result;
  }
  return InvalidInput("line {}: no kernel model for operator '{}'", row.line, row.op);
}

KernelList QuantisationOf(const BenchmarkRow& row) {
  KernelList list;
  const auto scale = row.shape.Text("quantised");
  if (!scale) return list;
  const int64_t elements = SaturatingProduct({Value(row, "m"), Value(row, "k")});
  const auto add = [&list](const OperatorCall::Shape& shape) {
    const KernelList kernels = Kernels({shape, DType::kBFloat16, Direction::kForward});
    list.insert(list.end(), kernels.begin(), kernels.end());
  };
  // One scale for all of x: it is cleared, then its largest element found, before any is scaled
  // (TensorRT-LLM, quantization.cu, invokeComputeFP8QuantizeScale): a row's elements, the largest
  // of a warp, of a block, and an atomic maximum, some nine trips one after the other. Scales of
  // blocks are found as they are used.
  if (*scale == "tensor") {
    add(FillOp{1});
    constexpr int64_t kTrips = 9;
    add(OpaqueOp{SaturatingProduct({elements, ElementSize(DType::kBFloat16)}), 0});
    list.back().trips = kTrips;
  }
  list.push_back(CastToFloat8(elements, DType::kBFloat16, *scale == "block"));
  return list;
}

}  // namespace foretrace
