#include "simulator/planning/serving/serving_costs.h"

#include <algorithm>
#include <bit>
#include <filesystem>
#include <map>
#include <mutex>
#include <numeric>
#include <optional>
#include <utility>

#include "simulator/base/check.h"
#include "simulator/base/error.h"
#include "simulator/base/shipped.h"
#include "simulator/base/status_macros.h"
#include "simulator/cost/calibration_set.h"
#include "simulator/cost/collective/expert_exchange_file.h"
#include "simulator/cost/collective/measured_sizes.h"
#include "simulator/cost/kernel/gpu_peaks.h"
#include "simulator/cost/power/power_model.h"
#include "simulator/hardware/catalog.h"
#include "simulator/network/fitted_network.h"
#include "simulator/planning/mappings/measured_device.h"
#include "simulator/topology/topology.h"

namespace foretrace {
namespace {

// Engines fuse norms with the addition before them, in kernels of their own.
constexpr int64_t kNormLoadBytes = 16;

struct MeasuredExchange {
  ExpertExchangeModel model;
  bool on_this_device = false;
};

class PlatformCosts : public serve::DeviceCosts {
 public:
  PlatformCosts(Topology topology, std::shared_ptr<const DeviceMeasurements> device,
                CalibrationSet node, std::optional<PowerModel> power,
                std::optional<MeasuredExchange> experts)
      : topology_(std::move(topology)),
        device_(std::move(device)),
        node_(std::move(node)),
        power_(std::move(power)),
        experts_(std::move(experts)),
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
    // Of tokens a decode step has few: often far below the sizes that curves were measured at.
    if (op == CollectiveOp::kAllReduce && device_->Covers(op, ranks, bytes)) {
      const auto measured = device_->CollectiveTime(op, ranks, bytes);
      if (measured && measured->extrapolated && device_->Below(op, ranks, bytes)) {
        return OfFewBytes(op, ranks, bytes, *measured);
      }
      if (measured) return *measured;
    }
    if (node_.collectives != nullptr && ranks <= topology_.spec().node.devices) {
      const CollectiveEstimator measured = node_.collectives->Resolve(op, ranks, 1);
      if (measured.covered() && SizesOf(*node_.collectives, op, ranks, 1).Covers(bytes)) {
        return measured.Time(bytes);
      }
    }
    return ByNetwork(op, ranks, bytes);
  }

  Bandwidth SwitchBandwidth(int32_t ranks) const override {
    const PlatformSpec& spec = topology_.spec();
    const NodeSpec& node = spec.node;
    if (node.interconnect != InterconnectKind::kSwitch || ranks > node.devices) return Bandwidth();
    const Bandwidth link = spec.links[static_cast<size_t>(node.interconnect_link)].bandwidth;
    return Bandwidth::BytesPerSecond(link.bytes_per_second() * node.links_per_device);
  }

  // Ranks fill nodes one after the other.
  std::optional<Estimate> ExpertTransfer(const ExpertExchange& exchange) const override {
    FORETRACE_CHECK(experts_.has_value());
    const ExpertLinks links = LinksOf(topology_.spec());
    const InterconnectKind kind = topology_.spec().node.interconnect;
    ExpertExchange x = exchange;
    x.routing.nodes = (x.routing.ranks + links.devices - 1) / links.devices;
    const bool nodes = x.routing.nodes > 1;
    if (kind != InterconnectKind::kSwitch && kind != InterconnectKind::kMesh) return std::nullopt;
    if (nodes && links.nic.bytes_per_second() <= 0) return std::nullopt;
    const double most =
        experts_->model.Kernel(x.algorithm, x.direction, x.routing.nodes).most_tokens;
    return Estimate{
        TimeOf(experts_->model, links, x).total(),
        experts_->on_this_device ? EstimateSource::kCalibrated : EstimateSource::kAnalytic,
        x.tokens > most};
  }

  Estimate Send(int32_t distance, Bytes bytes) const override {
    TransferSpec spec;
    spec.point_to_point = true;
    spec.members = {0, distance};
    return BetweenSizes({-1, distance}, spec, bytes.count());
  }

  double JoulesAboveIdle(DType dtype, Flop flop, Bytes bytes, SimTime time) const override {
    return power_ ? power_->JoulesAboveIdle(dtype, flop, bytes, time) : 0;
  }
  double IdleWatts() const override { return power_ ? power_->idle_w : 0; }
  int32_t Multiprocessors() const override {
    return topology_.spec().node.accelerator.multiprocessors();
  }

  std::string Source() const override {
    return fmt::format("{}; transfers on {}{}", device_->Source(), topology_.spec().name,
                       node_.collectives == nullptr ? "" : ", collectives as measured there");
  }

 private:
  using Key = std::pair<int, int32_t>;

  Estimate ByNetwork(CollectiveOp op, int32_t ranks, Bytes bytes) const {
    TransferSpec spec;
    spec.op = op;
    spec.members.resize(static_cast<size_t>(ranks));
    std::iota(spec.members.begin(), spec.members.end(), 0);
    return BetweenSizes({static_cast<int>(op), ranks}, spec, bytes.count());
  }

  // `held`: the shortest that was measured among so many ranks, of more bytes, whose own time it
  // has, which grows with ranks. What launches and late ranks take beyond the network's model, the
  // fewest ranks say that were measured.
  Estimate OfFewBytes(CollectiveOp op, int32_t ranks, Bytes bytes, Estimate held) const {
    for (int32_t fewest = 2; fewest < ranks; ++fewest) {
      if (!device_->Below(op, fewest, bytes)) continue;
      const auto measured = device_->CollectiveTime(op, fewest, bytes);
      if (!measured) continue;
      const SimTime more = ByNetwork(op, ranks, bytes).time - ByNetwork(op, fewest, bytes).time;
      held.time = std::min(held.time, measured->time + std::max(more, SimTime()));
      break;
    }
    return held;
  }

  // Sizes at which transfers are computed: all up to 64 bytes, then 32 in each doubling. A step's
  // sizes are as many as its tokens, and a schedule of rounds takes a millisecond to compute.
  static int64_t Below(int64_t bytes) {
    const int octave = std::bit_width(static_cast<uint64_t>(bytes)) - 1;
    return octave < 6 ? bytes : bytes >> (octave - 5) << (octave - 5);
  }
  static int64_t Above(int64_t bytes) {
    const int octave = std::bit_width(static_cast<uint64_t>(bytes)) - 1;
    const int64_t below = Below(bytes);
    return octave < 6 || below == bytes ? bytes : below + (int64_t{1} << (octave - 5));
  }

  // Linear between such sizes.
  Estimate BetweenSizes(const Key& key, TransferSpec& spec, int64_t bytes) const {
    const std::lock_guard lock(mutex_);
    const int64_t below = Below(bytes), above = Above(bytes);
    const Estimate low = At(key, spec, below);
    if (above == below) return low;
    const Estimate high = At(key, spec, above);
    const double share = static_cast<double>(bytes - below) / static_cast<double>(above - below);
    return {low.time + (high.time - low.time).ScaledBy(share), high.source,
            low.extrapolated || high.extrapolated};
  }
  Estimate At(const Key& key, TransferSpec& spec, int64_t bytes) const {
    const auto [it, fresh] = transfers_[key].try_emplace(bytes);
    if (fresh) {
      spec.bytes = Bytes(bytes);
      // The members are devices of the platform, so that there is always a way.
      const auto estimate = network_.IsolatedDuration(spec);
      if (estimate.ok()) it->second = *estimate;
    }
    return it->second;
  }

  const Topology topology_;
  const std::shared_ptr<const DeviceMeasurements> device_;
  const CalibrationSet node_;
  const std::optional<PowerModel> power_;
  const std::optional<MeasuredExchange> experts_;
  mutable std::mutex mutex_;
  mutable FittedNetwork network_;
  mutable std::map<Key, std::map<int64_t, Estimate>> transfers_;
};

// Collectives that were measured on this very platform, among devices of one node.
absl::StatusOr<CalibrationSet> MeasuredOnNode(const PlatformSpec& platform) {
  for (const std::string& file : ListShipped("calibration", "collectives.yaml")) {
    const std::filesystem::path folder = std::filesystem::path(file).parent_path();
    if (folder.filename() == platform.name) return LoadCalibrationSet(folder.string());
  }
  return CalibrationSet();
}

// Of this very device: others of the chip have other limits and leak otherwise.
absl::StatusOr<std::optional<PowerModel>> MeasuredPower(const PlatformSpec& platform) {
  for (const std::string& file : ListShipped("calibration", "power.yaml")) {
    FORETRACE_ASSIGN_OR_RETURN(LoadedPower loaded, LoadPowerModel(file));
    if (loaded.model.device == platform.node.accelerator.name) return std::move(loaded.model);
  }
  return std::optional<PowerModel>();
}

// Whether exchanges with experts were measured on such a device.
absl::StatusOr<bool> IsDeviceOf(const CalibrationHeader& header, const Accelerator& device) {
  std::vector<std::string> names;
  for (const auto& source : header.sources) {
    if (const auto it = source.find("device"); it != source.end()) names.push_back(it->second);
  }
  FORETRACE_ASSIGN_OR_RETURN(const AcceleratorCatalog catalog,
                             AcceleratorCatalog::LoadNamed(names));
  return std::ranges::any_of(names, [&](const std::string& name) {
    const Accelerator* measured = catalog.Find(name);
    return measured != nullptr && Compare(*measured, device) != DeviceMatch::kOther;
  });
}

absl::StatusOr<MeasuredExchange> ExchangeMeasured(const Accelerator& device) {
  FORETRACE_ASSIGN_OR_RETURN(const LoadedExpertExchange loaded, ShippedExpertExchange());
  FORETRACE_ASSIGN_OR_RETURN(const bool on_this_device, IsDeviceOf(loaded.header, device));
  return MeasuredExchange{loaded.model, on_this_device};
}

}  // namespace

absl::StatusOr<std::shared_ptr<const serve::DeviceCosts>> MakeDeviceCosts(
    const PlatformSpec& platform, const std::string& kernels, bool experts,
    std::vector<std::string>& notes) {
  if (kernels == "none") {
    return InvalidInput("--kernels none: steps need kernel times; give a calibration or auto");
  }
  std::vector<std::string> files;
  FORETRACE_ASSIGN_OR_RETURN(std::shared_ptr<const DeviceMeasurements> device,
                             MeasurementsOn(platform, kernels, notes, files));
  if (device == nullptr) {
    return InvalidInput("platform {}: {}", platform.name,
                        std::string(PeaksOf(platform.node.accelerator).status().message()));
  }
  FORETRACE_ASSIGN_OR_RETURN(Topology topology, Topology::Create(platform));
  FORETRACE_ASSIGN_OR_RETURN(CalibrationSet node, MeasuredOnNode(platform));
  FORETRACE_ASSIGN_OR_RETURN(std::optional<PowerModel> power, MeasuredPower(platform));
  std::optional<MeasuredExchange> exchange;
  if (experts) {
    FORETRACE_ASSIGN_OR_RETURN(exchange, ExchangeMeasured(platform.node.accelerator));
  }
  return std::make_shared<PlatformCosts>(std::move(topology), std::move(device), std::move(node),
                                         std::move(power), std::move(exchange));
}

}  // namespace foretrace
