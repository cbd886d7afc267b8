#include "simulator/mapping/optimizer_costs.h"

#include "simulator/base/dtype.h"
#include "simulator/mapping/mapped_layer.h"

namespace foretrace {

int64_t MomentBytes(const ParallelMapping& m) { return m.moment_bytes > 0 ? m.moment_bytes : 4; }

int64_t StateBytes(const TransformerConfig& c, const ParallelMapping& m) {
  return (ElementSize(c.dtype) < 4 ? 4 : 0) + 2 * MomentBytes(m);
}

double OptimizerCosts::Adam(int64_t weights) const {
  const OptimizerImpl impl =
      p_.forms.fused_optimizer ? OptimizerImpl::kFused : OptimizerImpl::kForeach;
  KernelList kernels = Kernels(
      {OptimizerOp{weights, 1, OptimizerKind::kAdam, impl}, DType::kFloat32, Direction::kForward});
  if (impl == OptimizerImpl::kFused) {
    // Of 32 bits, which the kernel reads four and writes three times a weight, two are moments.
    const int64_t fewer = 2 * (4 - MomentBytes(m_)) * weights;
    kernels[0].read = kernels[0].read - Bytes(fewer);
    kernels[0].written = kernels[0].written - Bytes(fewer);
  }
  CostSources apart;  // not of a micro-batch
  return kernels_.Time(kernels, apart).seconds();
}

double OptimizerCosts::Run(const OperatorCall& call) const {
  CostSources apart;  // not of a micro-batch
  return kernels_.Time(Kernels(call), apart).seconds();
}

double OptimizerCosts::Seconds(double own, double kept) const {
  if (m_.offload) return host_.Update(own) + (m_.zero < 2 ? Clearing(kept) : 0);
  const auto n = static_cast<int64_t>(own);
  double seconds = Run({ReductionOp{1, n}, DType::kFloat32, Direction::kForward}) +
                   Run({ElementwiseOp{n, n}, DType::kFloat32, Direction::kForward}) + Adam(n);
  // Weights that are divided parameter by parameter are the masters, cast when they are gathered
  // (ShardCopies); PyTorch's zero_grad frees their gradients.
  const bool masters = m_.zero >= 3 && (p_.per_parameter_sharding || p_.gathers_masters);
  if (masters) return seconds;
  if (ElementSize(c_.dtype) < 4) {
    ElementwiseOp cast{n, n};
    cast.output_dtype = c_.dtype;
    seconds += Run({cast, DType::kFloat32, Direction::kForward});
  }
  return seconds + Clearing(kept) + BeforeReduction(kept);
}

double OptimizerCosts::BeforeReduction(double gradients) const {
  const DType dtype = GradientType();
  const auto n = static_cast<int64_t>(gradients);
  double seconds = 0;
  if (p_.checks_gradients && c_.dtype != DType::kFloat16) {
    seconds += Run({ReductionOp{1, n}, dtype, Direction::kForward});
  }
  if (p_.scales_gradients && m_.replicas() > 1) {
    seconds += Run({ElementwiseOp{n, n}, dtype, Direction::kForward});
  }
  return seconds;
}

DType OptimizerCosts::GradientType() const {
  return GradientBytes(c_, m_) >= 4 ? DType::kFloat32 : c_.dtype;
}

double OptimizerCosts::Clearing(double gradients) const {
  return Run({FillOp{static_cast<int64_t>(gradients)}, GradientType(), Direction::kForward});
}

}  // namespace foretrace
