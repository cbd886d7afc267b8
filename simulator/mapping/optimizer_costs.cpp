#include "simulator/mapping/optimizer_costs.h"

#include "simulator/base/dtype.h"
#include "simulator/mapping/mapped_layer.h"

namespace foretrace {

double OptimizerCosts::Run(const OperatorCall& call) const {
  CostSources apart;  // not of a micro-batch
  return kernels_.Seconds(Kernels(call), apart);
}

double OptimizerCosts::Seconds(double own, double kept) const {
  if (m_.offload) return host_.Update(own) + (m_.zero < 2 ? Clearing(kept) : 0);
  const auto n = static_cast<int64_t>(own);
  const OptimizerImpl impl =
      p_.forms.fused_optimizer ? OptimizerImpl::kFused : OptimizerImpl::kForeach;
  double seconds =
      Run({ReductionOp{1, n}, DType::kFloat32, Direction::kForward}) +
      Run({ElementwiseOp{n, n}, DType::kFloat32, Direction::kForward}) +
      Run({OptimizerOp{n, 1, OptimizerKind::kAdam, impl}, DType::kFloat32, Direction::kForward});
  if (ElementSize(c_.dtype) < 4) {
    ElementwiseOp cast{n, n};
    cast.output_dtype = c_.dtype;
    seconds += Run({cast, DType::kFloat32, Direction::kForward});
  }
  return seconds + Clearing(kept);
}

double OptimizerCosts::Clearing(double gradients) const {
  const DType dtype = GradientBytes(c_, m_) >= 4 ? DType::kFloat32 : c_.dtype;
  return Run({FillOp{static_cast<int64_t>(gradients)}, dtype, Direction::kForward});
}

}  // namespace foretrace
