// Optimizer steps from the shapes of framework calls.

#include "simulator/cost/operator/trace_call.h"

namespace foretrace::trace_call {

Result ForeachStep(std::string_view name, const Call& call) {
  if (call.in.empty()) return std::nullopt;  // no shapes for lists in Kineto
  const int64_t elements = TotalElements(call.in);
  // The list holds every operand's tensors; the first operand is the one that is written.
  const bool three = name.starts_with("addc");
  const bool one = name.starts_with("sqrt") || name.starts_with("reciprocal") ||
                   name.starts_with("zero") || name.starts_with("neg");
  const int64_t operands = three ? 3 : one ? 1 : 2;
  ElementwiseOp op;
  op.read_elements = elements;
  op.elements = elements / operands;
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
