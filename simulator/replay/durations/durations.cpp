#include "simulator/replay/durations/durations.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "simulator/base/error.h"
#include "simulator/base/shipped.h"
#include "simulator/base/status_macros.h"
#include "simulator/console/options.h"
#include "simulator/cost/kernel/device_match.h"
#include "simulator/cost/memcpy/copy_cost_model.h"
#include "simulator/cost/traced/kernel_cost_model.h"
#include "simulator/cost/traced/recorded_cost_model.h"
#include "simulator/hardware/catalog.h"
#include "simulator/replay/durations/device_calibration.h"

namespace foretrace {
namespace {

constexpr std::string_view kModelFor = "model-for=";

// The device to predict for: the platform's, else the calibration's, else the one recorded on.
absl::StatusOr<GpuPeaks> DeviceOf(const CalibrationSet* calibration, const Accelerator* platform,
                                  const TraceStore& store) {
  if (platform != nullptr && !platform->name.empty()) return PeaksOf(*platform);
  if (calibration != nullptr) return FindGpuPeaksOfLabel(calibration->platform);
  const std::string& recorded = store.ranks().front().info().device_name;
  FORETRACE_ASSIGN_OR_RETURN(const AcceleratorCatalog accelerators,
                             AcceleratorCatalog::LoadNamed({&recorded, 1}));
  const Accelerator* found = accelerators.Find(recorded);
  if (found != nullptr) return PeaksOf(*found);
  return InvalidInput(
      "{}: durations are to be modelled, but for which device is not known (the recording names "
      "{}); "
      "name one with --platform (topologies/) or --calibration (calibration/), or add its file "
      "(topologies/accelerators/README.md)",
      store.ranks().front().info().source, recorded.empty() ? "none" : "\"" + recorded + "\"");
}

absl::StatusOr<std::shared_ptr<const KernelModels>> KernelsOf(const CalibrationSet* calibration,
                                                              const Accelerator* platform,
                                                              const TraceStore& store,
                                                              std::vector<std::string>& notes) {
  if (calibration != nullptr && calibration->kernels != nullptr) {
    const std::shared_ptr<const KernelModels>& kernels = calibration->kernels;
    const std::string what = fmt::format("calibration {}", calibration->folder);
    if (platform != nullptr && !platform->name.empty()) {
      FORETRACE_ASSIGN_OR_RETURN(const GpuPeaks device, PeaksOf(*platform));
      return KernelsOn(device, kernels, what, notes);
    }
    // Without a platform the calibration says for which device; the recorded one where it holds
    // for that.
    const auto recorded = FindGpuPeaks(store.ranks().front().info().device_name);
    if (!recorded.ok() ||
        Compare(recorded->accelerator, kernels->device().accelerator) == DeviceMatch::kOther) {
      return kernels;
    }
    return KernelsOn(*recorded, kernels, what, notes);
  }
  FORETRACE_ASSIGN_OR_RETURN(const GpuPeaks device, DeviceOf(calibration, platform, store));
  const absl::StatusOr<std::string> shipped = FindKernelCalibration(device.accelerator);
  notes.push_back(
      fmt::format("kernels: no calibration; analytic roofline of {} at typical "
                  "efficiencies{}",
                  device.name,
                  shipped.ok() && !shipped->empty()
                      ? fmt::format(" (--calibration {} has measured ones of its chip)",
                                    std::filesystem::path(*shipped).filename().string())
                      : ""));
  return std::make_shared<const KernelModels>(device, std::vector<KernelModel>());
}

void NoteOtherDevice(const GpuPeaks& device, const TraceStore& store,
                     std::vector<std::string>& notes) {
  const std::string& recorded = store.ranks().front().info().device_name;
  const absl::StatusOr<GpuPeaks> peaks = FindGpuPeaks(recorded);
  if (recorded.empty() ||
      (peaks.ok() && Compare(peaks->accelerator, device.accelerator) == DeviceMatch::kSame)) {
    return;
  }
  notes.push_back(fmt::format("durations are modelled for {}; the traces were recorded on {}",
                              device.name, recorded));
}

void NoteMasks(const KernelCostModel& kernels, AttentionMask mask,
               std::vector<std::string>& notes) {
  const KernelCostModel::AssumedMasks& assumed = kernels.assumed_masks();
  if (assumed.causal + assumed.none == 0) return;
  notes.push_back(fmt::format(
      "attention: of {} calls nothing says which keys a mask hides; {} are taken to be causal, {} "
      "to attend to all (about twice as long){}",
      assumed.causal + assumed.none, assumed.causal, assumed.none,
      mask == AttentionMask::kUnknown ? "; --attention-mask states it" : ", by --attention-mask"));
}

// Some device work that is not communication is modelled.
bool ModelsWork(const DurationPlan& plan, const TraceStore& store) {
  for (const RankTrace& rank : store.ranks()) {
    for (uint32_t i = 0; i < rank.size(); ++i) {
      const NodeIndex n(i);
      const NodeKind kind = rank.kind(n);
      if (IsDeviceKind(kind) && !IsCommunicationKind(kind) && plan.Models(store, rank, n, "")) {
        return true;
      }
    }
  }
  return false;
}

}  // namespace

void DurationOptions::Register(CLI::App& command) {
  command
      .add_option("--durations", durations,
                  "device work as recorded (default), from models (model), or from models for "
                  "what a selector of --what-if matches (model-for=name=gemm; may be repeated)")
      ->type_name("recorded|model|model-for=SELECTOR")
      ->allow_extra_args(false);
  command
      .add_option("--attention-mask", attention_mask,
                  "with modelled durations: what attention hides where a recording does not say: "
                  "the tokens to come (causal) or nothing (none); default: as the rest of the "
                  "recording suggests")
      ->check(CLI::IsMember({"causal", "none"}));
  command
      .add_option(
          "--calibration", calibrations,
          "folder of calibration files, or the name of one in calibration/; without it, "
          "or by none, models are analytic; may be repeated: kernels, collectives and copies each "
          "come from the first that has them")
      ->type_name("DIR|NAME")
      ->allow_extra_args(false);
}

absl::StatusOr<DurationPlan> DurationPlan::Parse(const std::vector<std::string>& texts) {
  DurationPlan plan;
  bool recorded = false;
  for (const std::string& text : texts) {
    if (text == "recorded") {
      recorded = true;
    } else if (text == "model") {
      plan.all_ = true;
    } else if (text.starts_with(kModelFor)) {
      std::string selector = text.substr(kModelFor.size());
      if (selector.empty()) {
        return InvalidInput("--durations {}: no selector; expected model-for=name=REGEX", text);
      }
      // A bare word is a name.
      if (selector.find('=') == std::string::npos) selector = "name=" + selector;
      FORETRACE_ASSIGN_OR_RETURN(NodeSelector parsed, ParseSelector("--durations " + text, selector,
                                                                    SelectorScope::kDeviceWork));
      plan.selectors_.push_back(std::move(parsed));
    } else {
      return InvalidInput("--durations {}: expected recorded, model or model-for=SELECTOR", text);
    }
  }
  if (recorded && plan.models_something()) {
    return InvalidInput(
        "--durations: recorded and model exclude each other; model-for=SELECTOR "
        "models a part");
  }
  return plan;
}

bool DurationPlan::selects_modules() const {
  return std::any_of(selectors_.begin(), selectors_.end(),
                     [](const NodeSelector& s) { return s.module != nullptr; });
}

void DurationPlan::SetModules(const std::shared_ptr<const ModuleMap>& modules) {
  for (NodeSelector& selector : selectors_) selector.modules = modules;
}

bool DurationPlan::Models(const TraceStore& store, const RankTrace& rank, NodeIndex node,
                          std::string_view communicator) const {
  return all_ || std::any_of(selectors_.begin(), selectors_.end(), [&](const NodeSelector& s) {
           return s.Selects(store, rank, node, communicator);
         });
}

bool DurationPlan::ModelsCommunication(const TraceStore& store) const {
  if (!models_something() || store.ranks().size() < 2) return false;
  for (const RankTrace& rank : store.ranks()) {
    for (uint32_t i = 0; i < rank.size(); ++i) {
      const NodeIndex n(i);
      if (!IsCommunicationKind(rank.kind(n))) continue;
      // The communicator's name is not known yet: a selector by it may match.
      if (all_ || std::any_of(selectors_.begin(), selectors_.end(), [&](const NodeSelector& s) {
            NodeSelector anywhere = s;
            anywhere.communicator.reset();
            return anywhere.Selects(store, rank, n, "");
          })) {
        return true;
      }
    }
  }
  return false;
}

absl::StatusOr<std::unique_ptr<CalibrationSet>> FindCalibrations(
    const std::vector<std::string>& names) {
  constexpr std::string_view kNone = "none";
  if (std::ranges::find(names, kNone) != names.end()) {
    if (names.size() == 1) return nullptr;
    return InvalidInput("--calibration none excludes others; leave it or them out");
  }
  std::unique_ptr<CalibrationSet> all;
  for (const std::string& name : names) {
    FORETRACE_ASSIGN_OR_RETURN(const std::string folder, FindShipped(kCalibrations, name));
    FORETRACE_ASSIGN_OR_RETURN(CalibrationSet set, LoadCalibrationSet(folder));
    if (all == nullptr) {
      all = std::make_unique<CalibrationSet>(std::move(set));
      continue;
    }
    for (auto& [family, stack] : set.stacks) {
      all->stacks.emplace_back(fmt::format("{} of {}", family, name), std::move(stack));
    }
    if (all->kernels == nullptr) all->kernels = set.kernels;
    if (all->collectives == nullptr) all->collectives = set.collectives;
    if (all->copies == nullptr) all->copies = set.copies;
    if (all->embedding == nullptr) all->embedding = set.embedding;
  }
  return all;
}

absl::StatusOr<AttentionMask> MaskOf(const DurationOptions& options, const DurationPlan& plan) {
  if (options.attention_mask.empty()) return AttentionMask::kUnknown;
  if (!plan.models_something()) {
    return InvalidInput("--attention-mask {} would change nothing: add --durations model",
                        options.attention_mask);
  }
  return options.attention_mask == "causal" ? AttentionMask::kCausal : AttentionMask::kNone;
}

absl::StatusOr<std::unique_ptr<DurationModels>> MakeDurationModels(
    const DurationPlan& plan, const CalibrationSet* calibration, const Accelerator* platform,
    const TraceStore& store, AttentionMask mask) {
  auto models = std::make_unique<DurationModels>();
  if (!plan.models_something()) {
    models->chain.Append(std::make_unique<RecordedCostModel>());
    return models;
  }
  if (!plan.models_all() && !ModelsWork(plan, store) && !plan.ModelsCommunication(store)) {
    return InvalidInput(
        "--durations model-for=... would change nothing: no device work in these traces is "
        "selected; `foretrace inspect --kernels` and `--ops` list what there is");
  }
  FORETRACE_ASSIGN_OR_RETURN(std::shared_ptr<const KernelModels> kernels,
                             KernelsOf(calibration, platform, store, models->notes));
  NoteOtherDevice(kernels->device(), store, models->notes);
  models->links = kernels->device().accelerator.links;
  if (calibration != nullptr) {
    if (std::string note = StackNote(*calibration); !note.empty()) {
      models->notes.push_back(std::move(note));
    }
  }
  if (!ModelsWork(plan, store)) models->notes.clear();
  models->chain.Append(
      std::make_unique<RecordedCostModel>([&plan, &store](const RankTrace& rank, NodeIndex node) {
        return plan.Models(store, rank, node, "");
      }));
  auto by_operator = std::make_unique<KernelCostModel>(
      kernels, store, calibration == nullptr ? nullptr : calibration->embedding,
      ChosenKernels::kUsed, mask);
  NoteMasks(*by_operator, mask, models->notes);
  models->kernels = by_operator.get();
  models->chain.Append(std::move(by_operator));
  models->chain.Append(std::make_unique<CopyCostModel>(
      kernels, calibration == nullptr ? nullptr : calibration->copies));
  return models;
}

}  // namespace foretrace
