#include "simulator/planning/dataflow_kernels.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/cost/operator/kernel_work.h"
#include "simulator/planning/measured_device.h"

namespace foretrace {
namespace {

using dataflow::Dimension;
using dataflow::Elementwise;
using dataflow::Kernel;
using dataflow::KernelKind;

class MeasuredKernelTimes : public dataflow::KernelTimes {
 public:
  explicit MeasuredKernelTimes(std::shared_ptr<const DeviceMeasurements> device)
      : device_(std::move(device)) {}

  double Ns(const Kernel& kernel, const std::array<int64_t, dataflow::kDimensions>& size,
            double micro_batch) const override {
    double seconds = 0;
    for (const KernelWork& work : Kernels(CallOf(kernel, size, std::llround(micro_batch)))) {
      seconds += device_->KernelTime(work).time.seconds();
    }
    return seconds * 1e9;
  }

  std::optional<double> AllReduceNs(int64_t chips, double bytes) const override {
    constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
    const std::optional<Estimate> found = device_->CollectiveTime(
        CollectiveOp::kAllReduce, static_cast<int32_t>(std::min(chips, kMost)),
        Bytes(std::llround(bytes)));
    if (!found || found->extrapolated) return std::nullopt;
    return found->time.seconds() * 1e9;
  }

 private:
  static OperatorCall CallOf(const Kernel& kernel,
                             const std::array<int64_t, dataflow::kDimensions>& size,
                             int64_t samples) {
    const auto of = [&](Dimension d) { return size[static_cast<size_t>(d)]; };
    const int64_t outer = of(Dimension::kOuter), m = of(Dimension::kM), k = of(Dimension::kK),
                  n = of(Dimension::kN);
    const Direction pass =
        kernel.pass == dataflow::Pass::kForward ? Direction::kForward : Direction::kBackward;
    if (kernel.kind == KernelKind::kWeightedGemm) {
      return {LinearOp{n * samples, outer * m, k}, DType::kFloat16, Direction::kForward};
    }
    if (kernel.weight_gradient)
      return {LinearOp{m, n, k * samples}, DType::kFloat16, Direction::kForward};
    if (kernel.kind == KernelKind::kGemm) {
      return {BatchedMatmulOp{outer * samples, m, n, k}, DType::kFloat16, Direction::kForward};
    }
    const int64_t elements = outer * m * n * samples;
    switch (kernel.elementwise) {
      case Elementwise::kNorm:
        return {LayerNormOp{outer * n * samples, m}, DType::kFloat16, pass};
      case Elementwise::kSoftmax:
        return {SoftmaxOp{outer * m * samples, n}, DType::kFloat16, pass};
      case Elementwise::kDropout:
        return {DropoutOp{elements}, DType::kFloat16, pass};
      default:
        return {ElementwiseOp{elements, elements}, DType::kFloat16, Direction::kForward};
    }
  }

  std::shared_ptr<const DeviceMeasurements> device_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<dataflow::KernelTimes>> FindKernelTimes(
    const std::string& kernels, const Accelerator& device, InterconnectKind within_node,
    std::vector<std::string>& notes) {
  NodeSpec node;
  node.interconnect = within_node;
  node.accelerator = device;
  std::vector<std::string> files;
  FORETRACE_ASSIGN_OR_RETURN(std::shared_ptr<const DeviceMeasurements> found,
                             FindMeasurements(kernels, node, notes, files));
  if (found == nullptr)
    return InvalidInput("--kernels {}: it has no kernels of {}", kernels, device.name);
  return std::make_unique<MeasuredKernelTimes>(std::move(found));
}

}  // namespace foretrace
