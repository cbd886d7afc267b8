#include "simulator/replay/durations/retarget.h"

#include <algorithm>
#include <utility>

#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/base/utf8.h"
#include "simulator/cost/kernel/device_match.h"
#include "simulator/cost/memcpy/copy_cost_model.h"
#include "simulator/cost/retarget/retarget_cost_model.h"
#include "simulator/cost/traced/kernel_cost_model.h"
#include "simulator/cost/traced/recorded_cost_model.h"
#include "simulator/replay/durations/device_calibration.h"

namespace foretrace {
namespace {

constexpr double kLargestUncovered = 0.05;  // of the recorded device time

using SharedKernels = std::shared_ptr<const KernelModels>;

// Null where nothing that ships is of the device.
absl::StatusOr<SharedKernels> ShippedKernels(const GpuPeaks& device,
                                             std::vector<std::string>& notes) {
  FORETRACE_ASSIGN_OR_RETURN(const std::string folder, FindKernelCalibration(device.accelerator));
  if (folder.empty()) return SharedKernels();
  FORETRACE_ASSIGN_OR_RETURN(const CalibrationSet set, LoadCalibrationSet(folder));
  return KernelsOn(device, set.kernels, folder, notes);
}

CostModelChain ModelsOf(const SharedKernels& kernels, const TraceStore& store,
                        ChosenKernels chosen) {
  CostModelChain chain;
  chain.Append(std::make_unique<KernelCostModel>(kernels, store, nullptr, chosen));
  chain.Append(std::make_unique<CopyCostModel>(kernels, nullptr));
  return chain;
}

// The device that all ranks name.
absl::StatusOr<const Accelerator*> RecordedDevice(const AcceleratorCatalog& accelerators,
                                                  const TraceStore& store) {
  const std::string& name = store.ranks().front().info().device_name;
  for (const RankTrace& rank : store.ranks()) {
    if (rank.info().device_name == name) continue;
    return Infeasible(
        "--on: rank {} was recorded on \"{}\", rank {} on \"{}\"; retarget one device",
        store.ranks().front().info().rank, Excerpt(name, 60), rank.info().rank,
        Excerpt(rank.info().device_name, 60));
  }
  if (name.empty()) {
    return Infeasible(
        "--on: {} does not name the device that it was recorded on (Kineto's deviceProperties), "
        "which the ratio of both devices needs; --durations model --platform models all durations "
        "afresh",
        store.ranks().front().info().source);
  }
  const Accelerator* device = accelerators.Find(name);
  if (device != nullptr && device->name != kUnnamedAccelerator) return device;
  return Infeasible("--on: recorded on \"{}\": {}", Excerpt(name, 60),
                    std::string(accelerators.Unknown(name).message()));
}

SimTime CommunicationTime(const TraceStore& store) {
  SimTime time;
  for (const RankTrace& rank : store.ranks()) {
    for (uint32_t i = 0; i < rank.size(); ++i) {
      const NodeIndex node(i);
      if (IsCommunicationKind(rank.kind(node)) && rank.has_duration(node)) {
        time += rank.duration(node);
      }
    }
  }
  return time;
}

// What no model covers: an error where it is too much, else a note.
absl::Status CheckCoverage(const RetargetCostModel& retarget, const TraceStore& store,
                           std::vector<std::string>& notes) {
  const SimTime communication = CommunicationTime(store);
  const bool alone = static_cast<size_t>(std::max(store.world_size(), 1)) > store.ranks().size();
  const SimTime total = retarget.total() + communication;
  const SimTime uncovered = retarget.uncovered() + (alone ? communication : SimTime());
  if (total == SimTime()) {
    return Infeasible("--on: {}: no device work with durations",
                      store.ranks().front().info().source);
  }
  if (uncovered == SimTime()) return absl::OkStatus();
  const double share = uncovered.seconds() / total.seconds();
  std::string which;
  if (alone && communication > SimTime()) {
    which = fmt::format("communication with ranks that have no trace {:.1f} %",
                        100 * communication.seconds() / total.seconds());
  }
  const size_t listed = std::min<size_t>(retarget.uncovered_names().size(), 3);
  for (size_t i = 0; i < listed; ++i) {
    const auto& [name, time] = retarget.uncovered_names()[i];
    which += fmt::format("{}{} {:.1f} %", which.empty() ? "" : ", ", Excerpt(name, 60),
                         100 * time.seconds() / total.seconds());
  }
  if (share > kLargestUncovered) {
    return Infeasible(
        "--on: no model covers {:.1f} % of the recorded device time ({}), more than {:.0f} %: the "
        "prediction would rest on what is not known; profile with record_shapes=True, or trace all "
        "ranks",
        100 * share, which, 100 * kLargestUncovered);
  }
  notes.push_back(
      fmt::format("kernels: {:.1f} % of the recorded device time has no model and stays "
                  "as recorded: {}",
                  100 * share, which));
  return absl::OkStatus();
}

bool HasBfloat(const TraceStore& store) {
  for (const RankTrace& rank : store.ranks()) {
    for (size_t n = 0; n < rank.size(); ++n) {
      for (const Tensor& tensor : rank.tensors(NodeIndex(n))) {
        if (tensor.dtype == DType::kBFloat16) return true;
      }
    }
  }
  return false;
}

// Chips before Ampere have no arithmetic of bfloat16.
void NoteBfloat(const Accelerator& from, const Accelerator& to, const TraceStore& store,
                std::vector<std::string>& notes) {
  const auto has = [](const Accelerator& device) {
    return device.peak(RateKind::kBf16) > FlopRate();
  };
  if (!has(from) || has(to) || !HasBfloat(store)) return;
  notes.push_back(fmt::format(
      "{} states no rate of bfloat16, in which the job was recorded: timed as float16", to.name));
}

}  // namespace

bool RecordedOn(const Accelerator& target, const AcceleratorCatalog& accelerators,
                const TraceStore& store) {
  return std::all_of(store.ranks().begin(), store.ranks().end(), [&](const RankTrace& rank) {
    const Accelerator* device = accelerators.Find(rank.info().device_name);
    return device != nullptr && Compare(*device, target) == DeviceMatch::kSame;
  });
}

absl::StatusOr<std::unique_ptr<DurationModels>> MakeRetargetModels(
    const Accelerator& target, const CalibrationSet* calibration,
    const AcceleratorCatalog& accelerators, const TraceStore& store) {
  auto models = std::make_unique<DurationModels>();
  std::vector<std::string>& notes = models->notes;
  if (RecordedOn(target, accelerators, store)) {
    notes.push_back(
        fmt::format("recorded on \"{}\", whose kernels take as long as those of {}: device work "
                    "and communication "
                    "stay as recorded; --network models communication",
                    Excerpt(store.ranks().front().info().device_name, 60), target.name));
    models->chain.Append(std::make_unique<RecordedCostModel>());
    return models;
  }
  FORETRACE_ASSIGN_OR_RETURN(const Accelerator* recorded, RecordedDevice(accelerators, store));
  FORETRACE_ASSIGN_OR_RETURN(const GpuPeaks from, PeaksOf(*recorded));
  FORETRACE_ASSIGN_OR_RETURN(const GpuPeaks to, PeaksOf(target));
  FORETRACE_ASSIGN_OR_RETURN(const SharedKernels from_kernels, ShippedKernels(from, notes));
  SharedKernels to_kernels;
  if (calibration != nullptr && calibration->kernels != nullptr) {
    FORETRACE_ASSIGN_OR_RETURN(
        to_kernels, KernelsOn(to, calibration->kernels,
                              fmt::format("calibration {}", calibration->folder), notes));
  } else {
    FORETRACE_ASSIGN_OR_RETURN(to_kernels, ShippedKernels(to, notes));
  }
  const bool calibrated = from_kernels != nullptr && to_kernels != nullptr;
  if (!calibrated) notes.clear();  // of siblings, whose models are not used
  // Both by the recorded kernels, or neither: else the ratio would be of two kinds of models.
  const ChosenKernels chosen = Compare(*recorded, target) == DeviceMatch::kOther
                                   ? ChosenKernels::kIgnored
                                   : ChosenKernels::kUsed;
  std::vector<CostModelChain> chains;
  if (calibrated) {
    chains.push_back(ModelsOf(from_kernels, store, chosen));
    chains.push_back(ModelsOf(to_kernels, store, chosen));
  }
  const std::vector<KernelModel> none;
  chains.push_back(ModelsOf(std::make_shared<const KernelModels>(from, none), store, chosen));
  chains.push_back(ModelsOf(std::make_shared<const KernelModels>(to, none), store, chosen));
  std::vector<DevicePair> pairs;
  for (size_t i = 0; i < chains.size(); i += 2) pairs.push_back({&chains[i], &chains[i + 1]});
  auto retarget = std::make_unique<RetargetCostModel>(store, pairs);
  notes.push_back(fmt::format(
      "kernels: as recorded on {}, times the ratio of the models of {} and {} ({})", from.name,
      to.name, from.name,
      calibrated ? "calibrated where both are, else analytic" : "analytic: peaks of their files"));
  NoteBfloat(*recorded, target, store, notes);
  FORETRACE_RETURN_IF_ERROR(CheckCoverage(*retarget, store, notes));
  models->chain.Append(std::move(retarget));
  models->chain.Append(std::make_unique<RecordedCostModel>());
  return models;
}

}  // namespace foretrace
