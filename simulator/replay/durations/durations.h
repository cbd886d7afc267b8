#pragma once
// The options --durations and --calibration: which durations of device work are replayed from the
// recording and which come from models, and the models.

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/cost/calibration_set.h"
#include "simulator/cost/cost_model.h"
#include "simulator/replay/what_if/node_selector.h"
#include "simulator/topology/platform.h"

namespace foretrace {

namespace CLI {
class App;
}

class KernelCostModel;

struct DurationOptions {
  std::vector<std::string> durations;  // recorded, model, model-for=SELECTOR; empty: recorded
  std::vector<std::string> calibrations;
  std::string attention_mask;  // causal, none; empty: as the recording suggests

  void Register(CLI::App& command);
};

// Which device work is modelled.
class DurationPlan {
 public:
  // Errors: text that is neither of the three, or both `recorded` and `model`.
  static absl::StatusOr<DurationPlan> Parse(const std::vector<std::string>& texts);

  // Selects by module: SetModules has to come before what follows.
  bool selects_modules() const;
  void SetModules(const std::shared_ptr<const ModuleMap>& modules);
  bool models_something() const { return all_ || !selectors_.empty(); }
  bool models_all() const { return all_; }
  bool Models(const TraceStore& store, const RankTrace& rank, NodeIndex node,
              std::string_view communicator) const;
  // Some communication of the job is modelled.
  bool ModelsCommunication(const TraceStore& store) const;

 private:
  bool all_ = false;
  std::vector<NodeSelector> selectors_;
};

// Folders, or names of folders in calibration/: each family of models from the first that has it.
// Null for no names, and for "none" alone. Errors: no such folder; "none" beside others.
absl::StatusOr<std::unique_ptr<CalibrationSet>> FindCalibrations(
    const std::vector<std::string>& names);

// The chain of models that a plan asks for: recorded (what is not modelled), calibrated, analytic.
struct DurationModels {
  CostModelChain chain;
  const KernelCostModel* kernels = nullptr;  // part of the chain; null where nothing is modelled
  std::optional<DeviceLinks> links;  // of the device that they are of; nullopt: nothing is modelled
  std::vector<std::string> notes;
};

// Errors: the options state a mask where nothing is modelled.
absl::StatusOr<AttentionMask> MaskOf(const DurationOptions& options, const DurationPlan& plan);

// `calibration` and `platform` may be null. `plan` and `store` must outlive the models. Errors: a
// device without a datasheet in foretrace, and no calibration of kernels.
absl::StatusOr<std::unique_ptr<DurationModels>> MakeDurationModels(
    const DurationPlan& plan, const CalibrationSet* calibration, const Accelerator* platform,
    const TraceStore& store, AttentionMask mask = AttentionMask::kUnknown);

}  // namespace foretrace
