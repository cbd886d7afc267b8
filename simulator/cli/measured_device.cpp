#include "simulator/cli/measured_device.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <filesystem>
#include <mutex>
#include <shared_mutex>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "simulator/base/error.h"
#include "simulator/base/shipped.h"
#include "simulator/base/status_macros.h"
#include "simulator/cost/calibration_file.h"
#include "simulator/cost/calibration_set.h"
#include "simulator/cost/kernel/gpu_peaks.h"

namespace foretrace {
namespace {

namespace fs = std::filesystem;

// A search asks for the same few shapes again and again.
template <typename Key>
class Memo {
 public:
  template <typename Compute>
  std::optional<Estimate> Get(const Key& key, const Compute& compute) const {
    {
      const std::shared_lock lock(mutex_);
      const auto it = known_.find(key);
      if (it != known_.end()) return it->second;
    }
    const std::optional<Estimate> value = compute();
    const std::unique_lock lock(mutex_);
    return known_.emplace(key, value).first->second;
  }

 private:
  mutable std::shared_mutex mutex_;
  mutable absl::flat_hash_map<Key, std::optional<Estimate>> known_;
};

class CalibratedDevice : public DeviceMeasurements {
 public:
  CalibratedDevice(CalibrationSet set, bool with_collectives, bool carried)
      : set_(std::move(set)), carried_(carried) {
    if (!with_collectives) set_.collectives = nullptr;
  }

  Estimate KernelTime(const KernelWork& work) const override {
    return set_.kernels->Predict(work, PrecisionOf(work.dtype, true));
  }

  std::optional<Estimate> AllReduceTime(int32_t ranks, Bytes bytes) const override {
    if (set_.collectives == nullptr) return std::nullopt;
    return reductions_.Get({ranks, bytes.count()}, [&]() -> std::optional<Estimate> {
      const CollectiveEstimator estimator =
          set_.collectives->Resolve(CollectiveOp::kAllReduce, ranks, 1);
      if (!estimator.covered()) return std::nullopt;
      return estimator.Time(bytes);
    });
  }

  std::string Source() const override {
    const std::string& device = set_.kernels->device().name;
    if (set_.folder.empty()) return "analytic kernels of " + device;
    return fmt::format("{} of {}{}",
                       set_.collectives == nullptr ? "kernels" : "kernels and all-reduces",
                       fs::path(set_.folder).lexically_normal().string(),
                       carried_ ? ", carried over to " + device : "");
  }

 private:
  CalibrationSet set_;
  bool carried_;  // from another board of the chip
  Memo<std::pair<int32_t, int64_t>> reductions_;
};

// What kernels.yaml says that it was measured on; empty where it does not.
absl::StatusOr<std::string> DeviceOf(const std::string& kernels_file) {
  FORETRACE_ASSIGN_OR_RETURN(const YAML::Node root, ReadYaml(kernels_file));
  const YAML::Node models = root["models"];
  if (!models || !models.IsMap() || !models["device"] || !models["device"].IsScalar()) return "";
  return models["device"].Scalar();
}

// Of the device, else of another board of its chip, of which folders with collectives come first.
absl::StatusOr<std::string> FindFolder(const GpuPeaks& device) {
  std::string sibling;
  bool whole = false;
  for (const std::string& file : ListShipped("calibration", "kernels.yaml")) {
    FORETRACE_ASSIGN_OR_RETURN(const std::string of, DeviceOf(file));
    const std::string folder = fs::path(file).parent_path().string();
    if (of == device.name) return folder;
    const auto peaks = FindGpuPeaks(of);
    if (!peaks || !IsSameChip(*peaks, device)) continue;
    const bool has_collectives = fs::exists(folder + "/collectives.yaml");
    if (!sibling.empty() && (whole || !has_collectives)) continue;
    sibling = folder;
    whole = has_collectives;
  }
  return sibling;
}

// The models with another board's memory and clocks; without models its analytic roofline.
std::shared_ptr<const KernelModels> CarriedOver(const KernelModels* kernels,
                                                const GpuPeaks& device) {
  std::vector<KernelModel> models;
  if (kernels != nullptr) models.assign(kernels->models().begin(), kernels->models().end());
  return std::make_shared<const KernelModels>(device, std::move(models));
}

bool ConnectedAlike(const CollectiveCalibration& measured, const NodeSpec& node) {
  const Interconnect kind = measured.header().interconnect;
  return (kind == Interconnect::kSwitch && node.interconnect == InterconnectKind::kSwitch) ||
         (kind == Interconnect::kMesh && node.interconnect == InterconnectKind::kMesh);
}

}  // namespace

absl::StatusOr<std::shared_ptr<const DeviceMeasurements>> FindMeasurements(
    const std::string& kernels, const NodeSpec& node) {
  const std::shared_ptr<const DeviceMeasurements> none;
  if (kernels == "none") return none;
  const auto peaks = FindGpuPeaks(node.device.name);
  std::string folder;
  if (kernels == "auto") {
    if (!peaks) return none;
    FORETRACE_ASSIGN_OR_RETURN(folder, FindFolder(*peaks));
    if (folder.empty()) {
      CalibrationSet analytic;
      analytic.kernels = CarriedOver(nullptr, *peaks);
      return std::make_shared<const CalibratedDevice>(std::move(analytic), false, false);
    }
  } else {
    FORETRACE_ASSIGN_OR_RETURN(folder, FindShipped(kCalibrations, kernels));
  }
  FORETRACE_ASSIGN_OR_RETURN(CalibrationSet set, LoadCalibrationSet(folder));
  if (set.kernels == nullptr) {
    return InvalidInput("--kernels {}: the folder has no kernels.yaml", folder);
  }
  if (!peaks || !IsSameChip(set.kernels->device(), *peaks)) {
    return InvalidInput(
        "--kernels {}: measured on {}, but the platform has {}; give another folder "
        "or none",
        folder, set.kernels->device().name, node.device.name);
  }
  const bool carried = set.kernels->device().name != peaks->name;
  if (carried) set.kernels = CarriedOver(set.kernels.get(), *peaks);
  const bool collectives = set.collectives != nullptr && ConnectedAlike(*set.collectives, node);
  return std::make_shared<const CalibratedDevice>(std::move(set), collectives, carried);
}

}  // namespace foretrace
