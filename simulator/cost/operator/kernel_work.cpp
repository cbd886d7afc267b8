#include "simulator/cost/operator/kernel_work.h"

#include <algorithm>
#include <array>

#include "simulator/base/enum_names.h"
#include "simulator/cost/operator/element_work.h"
#include "simulator/cost/operator/kernel_expander.h"

namespace foretrace {
namespace {

constexpr int64_t kLargest = int64_t{1} << 62;

constexpr std::array<std::string_view, 20> kKernelKindNames = {
    "gemm",    "bmm",         "conv2d",    "attention", "layer_norm", "batch_norm", "softmax",
    "dropout", "elementwise", "reduction", "concat",    "copy",       "transpose",  "fill",
    "memcpy",  "index",       "pooling",   "optimizer", "embedding",  "other"};

}  // namespace

int64_t SaturatingSum(std::initializer_list<int64_t> terms) {
  int64_t sum = 0;
  for (int64_t t : terms) sum += std::min(std::max<int64_t>(t, 0), kLargest - sum);
  return sum;
}

int64_t SaturatingProduct(std::initializer_list<int64_t> factors) {
  int64_t product = 1;
  for (int64_t f : factors) {
    if (f <= 0) return 0;
    product = product > kLargest / f ? kLargest : product * f;
  }
  return product;
}

std::string_view Name(KernelKind kind) { return EnumName(kKernelKindNames, kind); }

KernelKind ParseKernelKind(std::string_view name) {
  for (size_t i = 0; i < kKernelKindNames.size(); ++i) {
    if (kKernelKindNames[i] == name) return static_cast<KernelKind>(i);
  }
  return KernelKind::kOther;
}

int64_t ConvOutputSize(int64_t size, int64_t filter, int64_t stride, int64_t pad,
                       int64_t dilation) {
  const int64_t room = size + 2 * pad - dilation * (filter - 1) - 1;
  return room < 0 ? 0 : room / stride + 1;
}

KernelList Kernels(const OperatorCall& op) {
  return std::visit(KernelExpander(op.dtype, op.pass), op.shape);
}

OperatorWork TotalWork(const OperatorCall& op) {
  OperatorWork total;
  for (const KernelWork& work : Kernels(op)) {
    total.flop += work.flop;
    total.bytes =
        Bytes(SaturatingSum({total.bytes.count(), work.read.count(), work.written.count()}));
    total.launches += work.launches;
  }
  return total;
}

KernelWork CastToFloat8(int64_t elements, DType dtype, bool block_scaled) {
  KernelWork cast;
  cast.kind = KernelKind::kElementwise;
  cast.dtype = dtype;
  cast.flop = Flop(static_cast<double>(elements));
  cast.read = Bytes(SaturatingProduct({elements, ElementSize(dtype)}));
  cast.written = Bytes(elements);
  if (block_scaled) cast.instructions = BlockCastInstructions(static_cast<double>(elements));
  return cast;
}

}  // namespace foretrace
