#include "simulator/planning/mappings/measured_device.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <tuple>
#include <vector>

#include "simulator/base/error.h"
#include "simulator/base/memo.h"
#include "simulator/base/shipped.h"
#include "simulator/base/status_macros.h"
#include "simulator/cost/calibration_set.h"
#include "simulator/cost/collective/measured_sizes.h"
#include "simulator/cost/kernel/device_match.h"
#include "simulator/planning/mappings/platform_exchanges.h"
#include "simulator/replay/durations/device_calibration.h"

namespace foretrace {
namespace {

namespace fs = std::filesystem;

class CalibratedDevice : public DeviceMeasurements {
 public:
  CalibratedDevice(CalibrationSet set, bool with_collectives) : set_(std::move(set)) {
    if (!with_collectives) set_.collectives = nullptr;
  }

  Estimate KernelTime(const KernelWork& work) const override {
    // PyTorch's defaults since 1.12 (torch.backends): TF32 for convolutions, where there is one,
    // and not for GEMMs of matrices.
    const bool tf32 =
        work.kind == KernelKind::kConvolution && set_.kernels->device().tf32_tflops > 0;
    return set_.kernels->Predict(work, PrecisionOf(work.dtype, tf32));
  }

  std::optional<Estimate> CollectiveTime(CollectiveOp op, int32_t ranks,
                                         Bytes bytes) const override {
    if (set_.collectives == nullptr) return std::nullopt;
    return collectives_.Get({op, ranks, bytes.count()}, [&]() -> std::optional<Estimate> {
      const CollectiveEstimator estimator = set_.collectives->Resolve(op, ranks, 1);
      if (!estimator.covered()) return std::nullopt;
      return estimator.Time(bytes);
    });
  }

  bool Covers(CollectiveOp op, int32_t ranks, Bytes bytes) const override {
    return set_.collectives != nullptr && SizesOf(*set_.collectives, op, ranks, 1).Covers(bytes);
  }
  bool Below(CollectiveOp op, int32_t ranks, Bytes bytes) const override {
    return set_.collectives != nullptr && SizesOf(*set_.collectives, op, ranks, 1).Below(bytes);
  }

  std::optional<KernelDemand> Demand(const KernelWork& work) const override {
    return DemandOf(set_.kernels->device(), PrecisionOf(work.dtype, false), work);
  }
  SharedDevice Shared() const override { return SharedBy(set_.kernels->device()); }

  std::string Source() const override {
    if (set_.folder.empty()) return "analytic kernels of " + set_.kernels->device().name;
    return fmt::format("{} of {}",
                       set_.collectives == nullptr ? "kernels" : "kernels and collectives",
                       fs::path(set_.folder).lexically_normal().string());
  }

 private:
  CalibrationSet set_;
  Memo<std::tuple<CollectiveOp, int32_t, int64_t>, std::optional<Estimate>> collectives_;
};

bool ConnectedAlike(const CollectiveCalibration& measured, const NodeSpec& node) {
  const Interconnect kind = measured.header().interconnect;
  return (kind == Interconnect::kSwitch && node.interconnect == InterconnectKind::kSwitch) ||
         (kind == Interconnect::kMesh && node.interconnect == InterconnectKind::kMesh);
}

// Devices of one chip may have fewer links (A800, H800). Of unknown ones nothing is said.
bool LinkedAlike(const DeviceLinks& measured, const DeviceLinks& device) {
  return measured.links == 0 || device.links == 0 || measured.total() == device.total();
}

class OnOtherLinks : public DeviceMeasurements {
 public:
  OnOtherLinks(std::shared_ptr<const DeviceMeasurements> measured,
               std::shared_ptr<const ExchangeTimes> here,
               std::shared_ptr<const ExchangeTimes> there)
      : measured_(std::move(measured)), here_(std::move(here)), there_(std::move(there)) {}

  Estimate KernelTime(const KernelWork& work) const override { return measured_->KernelTime(work); }

  std::optional<Estimate> CollectiveTime(CollectiveOp op, int32_t ranks,
                                         Bytes bytes) const override {
    std::optional<Estimate> time = measured_->CollectiveTime(op, ranks, bytes);
    if (!time) return time;
    const auto here = here_->Collective(op, {ranks, 1}, bytes);
    const auto there = there_->Collective(op, {ranks, 1}, bytes);
    if (!here.ok() || !there.ok() || *there <= SimTime()) return std::nullopt;
    time->time = time->time.ScaledBy(here->us() / there->us());
    time->extrapolated = true;
    return time;
  }

  bool Covers(CollectiveOp op, int32_t ranks, Bytes bytes) const override {
    return measured_->Covers(op, ranks, bytes);
  }
  bool Below(CollectiveOp op, int32_t ranks, Bytes bytes) const override {
    return measured_->Below(op, ranks, bytes);
  }

  std::optional<KernelDemand> Demand(const KernelWork& work) const override {
    return measured_->Demand(work);
  }
  SharedDevice Shared() const override { return measured_->Shared(); }

  std::string Source() const override { return measured_->Source(); }

 private:
  std::shared_ptr<const DeviceMeasurements> measured_;
  std::shared_ptr<const ExchangeTimes> here_, there_;  // of the platform; with the device's links
};

// Where nothing was measured on the device: the analytic roofline of its kernels, as predict takes.
std::shared_ptr<const DeviceMeasurements> Analytic(const GpuPeaks& device) {
  CalibrationSet set;
  set.kernels = std::make_shared<const KernelModels>(device, std::vector<KernelModel>());
  return std::make_shared<const CalibratedDevice>(std::move(set), false);
}

// With `over`, also collectives that were measured over other links than the device's, if both are
// a switch's; it then says which.
absl::StatusOr<std::shared_ptr<const DeviceMeasurements>> Find(const std::string& kernels,
                                                               const NodeSpec& node,
                                                               Bandwidth* over,
                                                               std::vector<std::string>& notes,
                                                               std::vector<std::string>& files) {
  const std::shared_ptr<const DeviceMeasurements> none;
  if (kernels == "none") return none;
  const absl::StatusOr<GpuPeaks> device = PeaksOf(node.accelerator);
  std::string folder;
  if (kernels == "auto") {
    if (!device.ok()) return none;
    FORETRACE_ASSIGN_OR_RETURN(folder, FindKernelCalibration(node.accelerator));
    if (folder.empty()) return Analytic(*device);
  } else {
    if (!device.ok()) return device.status();
    FORETRACE_ASSIGN_OR_RETURN(folder, FindShipped(kCalibrations, kernels));
  }
  FORETRACE_ASSIGN_OR_RETURN(CalibrationSet set, LoadCalibrationSet(folder));
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.is_regular_file(error)) files.push_back(entry.path().string());
  }
  std::sort(files.begin(), files.end());
  if (set.kernels == nullptr) {
    return InvalidInput("--kernels {}: the folder has no kernels.yaml", folder);
  }
  const DeviceLinks links = set.kernels->device().accelerator.links;
  FORETRACE_ASSIGN_OR_RETURN(
      set.kernels, KernelsOn(*device, set.kernels, fmt::format("--kernels {}", folder), notes));
  if (std::string note = StackNote(set); !note.empty()) notes.push_back(std::move(note));
  bool collectives = set.collectives != nullptr && ConnectedAlike(*set.collectives, node);
  if (collectives && !LinkedAlike(links, node.accelerator.links)) {
    if (over != nullptr && node.interconnect == InterconnectKind::kSwitch) {
      *over = links.total();
      return std::make_shared<const CalibratedDevice>(std::move(set), true);
    }
    collectives = false;
    notes.push_back(fmt::format(
        "collectives of {} were measured over {:.0f} GB/s of links to others, {} has {:.0f}: the "
        "network model's are taken",
        fs::path(folder).filename().string(), links.total().gbps(), node.accelerator.name,
        node.accelerator.links.total().gbps()));
  }
  return std::make_shared<const CalibratedDevice>(std::move(set), collectives);
}

// `own`: of all links of the device that collectives were measured on.
absl::StatusOr<std::shared_ptr<const DeviceMeasurements>> Scaled(
    const PlatformSpec& platform, std::shared_ptr<const DeviceMeasurements> measured, Bandwidth own,
    std::vector<std::string>& notes) {
  const NodeSpec& node = platform.node;
  if (measured == nullptr || node.interconnect != InterconnectKind::kSwitch ||
      node.interconnect_link == kNoLinkType || own.bytes_per_second() <= 0) {
    return measured;
  }
  LinkType link = platform.links[static_cast<size_t>(node.interconnect_link)];
  const double total = link.bandwidth.bytes_per_second() * node.links_per_device;
  constexpr double kRounding = 1e-6;
  if (std::abs(total / own.bytes_per_second() - 1) < kRounding) return measured;
  PlatformSpec there = platform;
  link.bandwidth = Bandwidth::BytesPerSecond(own.bytes_per_second() / node.links_per_device);
  there.node.interconnect_link = static_cast<LinkTypeIndex>(there.links.size());
  there.links.push_back(std::move(link));
  FORETRACE_ASSIGN_OR_RETURN(std::shared_ptr<const ExchangeTimes> here, ExchangesOf(platform));
  FORETRACE_ASSIGN_OR_RETURN(std::shared_ptr<const ExchangeTimes> other, ExchangesOf(there));
  notes.push_back(
      fmt::format("links of {:.0f} GB/s instead of {:.0f}: measured collectives are scaled as the "
                  "network model says",
                  total / 1e9, own.gbps()));
  return std::make_shared<const OnOtherLinks>(std::move(measured), std::move(here),
                                              std::move(other));
}

}  // namespace

absl::StatusOr<std::shared_ptr<const DeviceMeasurements>> FindMeasurements(
    const std::string& kernels, const NodeSpec& node, std::vector<std::string>& notes,
    std::vector<std::string>& files) {
  return Find(kernels, node, nullptr, notes, files);
}

absl::StatusOr<std::shared_ptr<const DeviceMeasurements>> MeasurementsOn(
    const PlatformSpec& platform, const std::string& kernels, std::vector<std::string>& notes,
    std::vector<std::string>& files) {
  Bandwidth over = platform.node.accelerator.links.total();
  FORETRACE_ASSIGN_OR_RETURN(std::shared_ptr<const DeviceMeasurements> measured,
                             Find(kernels, platform.node, &over, notes, files));
  return Scaled(platform, std::move(measured), over, notes);
}

std::string BfloatNote(const Accelerator& device, DType dtype) {
  if (dtype != DType::kBFloat16) return "";
  const FlopRate own = device.peak(RateKind::kBf16), half = device.peak(RateKind::kFp16);
  if (own == FlopRate()) {
    return fmt::format("{} states no rate of bfloat16, in which the model is: timed as float16",
                       device.name);
  }
  if (own == half) return "";
  return fmt::format(
      "{} states {:.4g} TFLOP/s for bfloat16, in which the model is, and {:.4g} for float16: timed "
      "as float16",
      device.name, own.per_second() / 1e12, half.per_second() / 1e12);
}

}  // namespace foretrace
