#include "simulator/cost/traced/generated_calls.h"

#include <algorithm>

#include "simulator/cost/kernel/kernel_names.h"
#include "simulator/cost/operator/kernel_work.h"

namespace foretrace {
namespace {

constexpr size_t kWithin = 24;  // kernels of a layer's gradients
constexpr size_t kNext = 6;     // from a sum to what needs it

}  // namespace

std::optional<GeneratedKernel> GeneratedCalls::KernelAt(size_t i) const {
  const LaunchAttr* launch = rank_.launch(flow_.order()[i]);
  if (launch == nullptr) return std::nullopt;
  return GeneratedKernelOf(flow_.name(i), *launch);
}

// Layers' results, or their inputs' gradients, that nothing has used: all of one input's are added
// up by the kernel that needs its gradient.
int64_t GeneratedCalls::ResultsBefore(size_t i) const {
  int64_t results = 0;
  for (const size_t p : flow_.Before(i, kWithin)) {
    if (flow_.at(p).attention) break;
    if (flow_.at(p).gemm && !SumsOverRows(flow_.name(p)).value_or(false)) ++results;
    const auto other = KernelAt(p);
    if (other && other->gradient) break;
  }
  return std::max<int64_t>(results, 1);
}

int64_t GeneratedCalls::ElementsBehind(size_t i) const {
  const int64_t least = static_cast<int64_t>(rank_.launch(flow_.order()[i])->blocks());
  for (const size_t p : flow_.Behind(i, kNext)) {
    if (flow_.at(p).gemm) break;
    if (flow_.at(p).moved > least) return flow_.at(p).moved;
  }
  return 0;
}

std::optional<TracedOperator> GeneratedCalls::Next(size_t i, int64_t classes) {
  auto kernel = KernelAt(i);
  if (!kernel) return std::nullopt;
  int64_t elements = kernel->elements, rows = 0, turned = kernel->turned_over ? 1 : 0;
  if (kernel->kind == GeneratedKernel::Kind::kRowReduction) {
    rows = flow_.at(i).rows > 0 ? flow_.at(i).rows : flow_.rows();
    elements = SaturatingProduct({rows, kernel->softmax ? classes : flow_.columns()});
    if (kernel->of_norm && kernel->gradient) {
      const int64_t layers = ResultsBefore(i);
      kernel->read += static_cast<double>(layers);
      // Each layer's weights' gradient asks for the input turned over, in 8 bits.
      if (kernel->quantises) turned *= layers;
      // Where each row has a block, none adds up over rows.
      const double own = kernel->read;
      if (kernel->rows == 0) kernel->read += left_;
      left_ = kernel->rows > 0 ? own - 1 : 0;
    }
  } else if (kernel->kind == GeneratedKernel::Kind::kReduction) {
    elements = ElementsBehind(i);
  }
  if (elements < 1) return std::nullopt;
  const double bytes = static_cast<double>(SaturatingProduct({elements, element_.count()}));
  TracedOperator traced;
  constexpr double kMost = 1e18;
  traced.op.shape = OpaqueOp{static_cast<int64_t>(std::min(bytes * kernel->read, kMost)),
                             static_cast<int64_t>(std::min(bytes * kernel->written, kMost))};
  traced.op.dtype = element_.count() == 2 ? DType::kBFloat16 : DType::kFloat32;
  traced.assumed = true;
  traced.access.elements = traced.access.largest = elements;
  traced.access.rows = rows;
  if (turned > 0 && rows > 0) traced.access.scattered = static_cast<int>(turned);
  return traced;
}

}  // namespace foretrace
