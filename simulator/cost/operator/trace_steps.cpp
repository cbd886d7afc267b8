// Optimizer steps from the shapes of framework calls.

#include <algorithm>
#include <iterator>
#include <span>

#include "simulator/cost/operator/trace_call.h"

namespace foretrace::trace_call {
namespace {

// A second operand is a list of tensors like the first's, or a number, or a tensor with one, which
// has no dimensions.
bool HasTwoLists(std::span<const TensorShape> tensors) {
  const size_t half = tensors.size() / 2;
  if (tensors.size() % 2 != 0) return false;
  return std::ranges::equal(tensors.first(half), tensors.subspan(half),
                            [](const TensorShape& a, const TensorShape& b) {
                              return std::ranges::equal(a.dims, b.dims);
                            });
}

}  // namespace

Result ForeachStep(std::string_view name, const Call& call) {
  if (call.in.empty()) return std::nullopt;  // no shapes for lists in Kineto
  const int64_t elements = TotalElements(call.in);
  ElementwiseOp op;
  op.read_elements = elements;
  // One result a tensor.
  if (name.starts_with("norm") || name.starts_with("max")) {
    op.elements = std::ssize(call.in);
    return Traced(op, call);
  }
  // The list holds every operand's tensors; the first operand is the one that is written.
  const bool three = name.starts_with("addc");
  op.elements = elements / (three ? 3 : HasTwoLists(call.in) ? 2 : 1);
  return Traced(op, call);
}

// _fused_adam_(params, grads, exp_avgs, exp_avg_sqs, ...), _fused_sgd_(params, grads, momenta,
// ...): one kernel over all; steps and rates are scalars, whose weight does not count.
Result FusedStep(std::string_view name, const Call& call) {
  if (call.in.empty()) return std::nullopt;
  OptimizerOp op;
  op.kind = name.starts_with("adam")      ? OptimizerKind::kAdam
            : name.starts_with("adagrad") ? OptimizerKind::kAdagrad
                                          : OptimizerKind::kSgdMomentum;
  op.impl = OptimizerImpl::kFused;
  const int64_t operands = op.kind == OptimizerKind::kAdam ? 4 : 3;
  op.params = TotalElements(call.in) / operands;
  op.tensors = static_cast<int64_t>(call.in.size()) / operands;
  return Traced(op, call);
}

}  // namespace foretrace::trace_call
