#include "simulator/calibrate/kernel/uncalibrated_kernels.h"

#include <fmt/format.h>

#include "simulator/base/error.h"
#include "simulator/calibrate/kernel/benchmark_operator.h"
#include "simulator/calibrate/kernel/kernel_fitter.h"
#include "simulator/cost/kernel/kernel_model.h"

namespace foretrace {
namespace {

// Models without a fitted one, of the device of each row; null: its platform names none that
// kernels can be modelled on.
class Devices {
 public:
  const KernelModels* Of(const std::string& platform) {
    const auto [it, inserted] = models_.try_emplace(platform);
    if (inserted) {
      const auto device = FindGpuPeaksOfLabel(platform);
      if (device.ok()) {
        it->second = std::make_unique<KernelModels>(*device, std::vector<KernelModel>());
      }
    }
    return it->second.get();
  }

 private:
  std::map<std::string, std::unique_ptr<KernelModels>> models_;
};

}  // namespace

absl::Status UncalibratedKernels::Writable() const {
  return InvalidInput("nothing was fitted that a calibration could hold");
}

std::vector<EvaluatedRow> UncalibratedKernels::Evaluate(std::span<const BenchmarkRow> rows) const {
  std::vector<EvaluatedRow> evaluated;
  Devices devices;
  for (const BenchmarkRow& row : rows) {
    if (row.kind != BenchmarkKind::kKernel) continue;
    const KernelModels* models = devices.Of(row.platform);
    const auto op = OperatorOfRow(row);
    if (models == nullptr || !op.ok()) continue;
    const KernelList& kernels = op->kernels;
    if (kernels.empty()) continue;
    SimTime time;
    for (const KernelWork& work : kernels) time += models->Predict(work, op->precision).time;
    // The time of a call holds the gaps between its kernels.
    for (const KernelWork& work : QuantisationOf(row)) {
      time += models->Predict(work, Precision::kFloat32).time +
              models->device().accelerator.driver.latencies.stream_gap;
    }
    // A softmax's gradient is not named after the product before it.
    const bool product = kernels.size() > 1 && kernels[0].kind == KernelKind::kElementwise;
    const KernelWork& main = kernels[product && IsRowWise(kernels[1]) ? 1 : 0];
    evaluated.push_back({&row, ModelNameOf(row, KeyOf(main, op->precision)), time.us(), true});
  }
  return evaluated;
}

std::vector<std::string> UncalibratedKernels::NotesOn(const std::string& platform) const {
  const auto device = FindGpuPeaksOfLabel(platform);
  if (!device.ok()) return {std::string(device.status().message())};
  return {
      fmt::format("rows are predicted by {} alone; what their source adds to a kernel by its "
                  "own launches is not in the predictions",
                  device->accelerator.file)};
}

}  // namespace foretrace
