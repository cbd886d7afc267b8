#include "simulator/planning/serving_costs.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <mutex>
#include <numeric>
#include <tuple>

#include "simulator/base/error.h"
#include "simulator/base/shipped.h"
#include "simulator/base/status_macros.h"
#include "simulator/cost/calibration_set.h"
#include "simulator/network/fitted_network.h"
#include "simulator/planning/measured_device.h"
#include "simulator/topology/topology.h"

namespace foretrace {
namespace {

// Engines fuse norms with the addition before them, in kernels of their own.
constexpr int64_t kNormLoadBytes = 16;

class PlatformCosts : public serve::DeviceCosts {
 public:
  PlatformCosts(Topology topology, std::shared_ptr<const DeviceMeasurements> device,
                CalibrationSet node)
      : topology_(std::move(topology)),
        device_(std::move(device)),
        node_(std::move(node)),
        network_(topology_, NetworkOptions(), FittedNetwork::Measured()) {}

  Estimate Kernel(const KernelWork& work) const override {
    if (work.kind != foretrace::KernelKind::kLayerNorm) return device_->KernelTime(work);
    KernelWork norm = work;
    norm.load_elements = kNormLoadBytes / std::max<int64_t>(ElementSize(work.dtype), 1);
    return device_->KernelTime(norm);
  }

  bool Multiplies(WeightFormat format) const override {
    const Accelerator& device = topology_.spec().node.accelerator;
    const bool four = format == WeightFormat::kMxfp4;
    if (format == WeightFormat::kInt4) return false;
    return device.peak(four ? RateKind::kFp4 : RateKind::kFp8).per_second() > 0;
  }

  Estimate Collective(CollectiveOp op, int32_t ranks, Bytes bytes) const override {
    if (ranks <= 1) return {SimTime(), EstimateSource::kAnalytic, false};
    if (op == CollectiveOp::kAllReduce) {
      if (const auto measured = device_->CollectiveTime(op, ranks, bytes)) return *measured;
    }
    if (node_.collectives != nullptr && ranks <= topology_.spec().node.devices) {
      const CollectiveEstimator measured = node_.collectives->Resolve(op, ranks, 1);
      if (measured.covered()) return measured.Time(bytes);
    }
    TransferSpec spec;
    spec.op = op;
    spec.members.resize(static_cast<size_t>(ranks));
    std::iota(spec.members.begin(), spec.members.end(), 0);
    spec.bytes = bytes;
    return Remembered({static_cast<int>(op), ranks, bytes.count()}, spec);
  }

  Bandwidth SwitchBandwidth(int32_t ranks) const override {
    const PlatformSpec& spec = topology_.spec();
    const NodeSpec& node = spec.node;
    if (node.interconnect != InterconnectKind::kSwitch || ranks > node.devices) return Bandwidth();
    const Bandwidth link = spec.links[static_cast<size_t>(node.interconnect_link)].bandwidth;
    return Bandwidth::BytesPerSecond(link.bytes_per_second() * node.links_per_device);
  }

  Estimate Send(int32_t distance, Bytes bytes) const override {
    TransferSpec spec;
    spec.point_to_point = true;
    spec.members = {0, distance};
    spec.bytes = bytes;
    return Remembered({-1, distance, bytes.count()}, spec);
  }

  std::string Source() const override {
    return fmt::format("{}; transfers on {}{}", device_->Source(), topology_.spec().name,
                       node_.collectives == nullptr ? "" : ", collectives as measured there");
  }

 private:
  using Key = std::tuple<int, int32_t, int64_t>;

  Estimate Remembered(const Key& key, const TransferSpec& spec) const {
    const std::lock_guard lock(mutex_);
    const auto known = transfers_.find(key);
    if (known != transfers_.end()) return known->second;
    const auto estimate = network_.IsolatedDuration(spec);
    // The members are devices of the platform, so that there is always a way.
    return transfers_[key] = estimate.ok() ? *estimate : Estimate();
  }

  const Topology topology_;
  const std::shared_ptr<const DeviceMeasurements> device_;
  const CalibrationSet node_;
  mutable std::mutex mutex_;
  mutable FittedNetwork network_;
  mutable std::map<Key, Estimate> transfers_;
};

// Collectives that were measured on this very platform, among devices of one node.
absl::StatusOr<CalibrationSet> MeasuredOnNode(const PlatformSpec& platform) {
  for (const std::string& file : ListShipped("calibration", "collectives.yaml")) {
    const std::filesystem::path folder = std::filesystem::path(file).parent_path();
    if (folder.filename() == platform.name) return LoadCalibrationSet(folder.string());
  }
  return CalibrationSet();
}

}  // namespace

absl::StatusOr<std::shared_ptr<const serve::DeviceCosts>> MakeDeviceCosts(
    const PlatformSpec& platform, const std::string& kernels, std::vector<std::string>& notes) {
  if (kernels == "none") {
    return InvalidInput("--kernels none: steps need kernel times; give a calibration or auto");
  }
  std::vector<std::string> files;
  FORETRACE_ASSIGN_OR_RETURN(std::shared_ptr<const DeviceMeasurements> device,
                             FindMeasurements(kernels, platform.node, notes, files));
  if (device == nullptr) {
    return InvalidInput("platform {}: its accelerator states neither rates nor memory bandwidth",
                        platform.name);
  }
  FORETRACE_ASSIGN_OR_RETURN(Topology topology, Topology::Create(platform));
  FORETRACE_ASSIGN_OR_RETURN(CalibrationSet node, MeasuredOnNode(platform));
  return std::make_shared<PlatformCosts>(std::move(topology), std::move(device), std::move(node));
}

}  // namespace foretrace
