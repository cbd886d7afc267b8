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

class MeasuredKernelTimes : public dataflow::KernelTimes {
 public:
  explicit MeasuredKernelTimes(std::shared_ptr<const DeviceMeasurements> device)
      : device_(std::move(device)) {}

  double Ns(const LoopGraph& graph, OpId op, const LoopSizes& size,
            double micro_batch) const override {
    double seconds = 0;
    for (const KernelWork& work : Kernels(CallOf(graph, op, size, std::llround(micro_batch)))) {
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
