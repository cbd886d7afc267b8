#pragma once
// How a job is simulated: the options that say so, and what is built from them.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/engine/compile.h"
#include "simulator/engine/ingredients.h"
#include "simulator/importers/profile_extras.h"
#include "simulator/replay/durations/durations.h"
#include "simulator/replay/what_if/what_if.h"
#include "simulator/topology/topology.h"
#include "simulator/trace/rank_trace.h"

namespace foretrace {

namespace CLI {
class App;
}

struct SimulationOptions {
  std::string semantics = "full";
  std::vector<std::string> without;
  bool aligned_start = false;
  bool allow_missing_ranks = false;
  std::string absent = "as-recorded";
  std::string overheads = "recorded";
  std::vector<std::string> what_if;
  int32_t ranks = 0;          // of a larger job; 0: as recorded
  std::string data_parallel;  // which groups grow with it
  std::string platform;
  std::string on;  // platform to retarget a recording to
  double cpu_scale = 1;
  std::string network;  // empty: recorded, but fitted where durations models communication
  DurationOptions durations;
  bool skip_absent = false;  // cases on data that may be absent are skipped, with a message

  void Register(CLI::App& command);
};

// Some device work has no duration: only a model can tell what it takes.
bool LacksDurations(const TraceStore& store);

// Everything a simulation needs, built from the options; owns the models.
class SimulationSetup {
 public:
  using ReadExtras = std::function<absl::StatusOr<std::vector<ProfileExtras>>()>;
  // `extras` is called where a selector asks for modules.
  static absl::StatusOr<SimulationSetup> Make(const SimulationOptions& options,
                                              const TraceStore& store,
                                              const ReadExtras& extras = {});
  const CompileOptions& compile() const { return compile_; }
  CompileOptions& compile() { return compile_; }
  NetworkModel* network() const { return network_.get(); }
  // What says how long collectives of other sizes than recorded take; null: no --platform.
  NetworkModel* sizes() const { return network_ != nullptr ? network_.get() : sizes_.get(); }
  // The platform that options name; null: none.
  const Topology* topology() const { return topology_.get(); }
  // The changes of --what-if, which are applied to the compiled job.
  const WhatIf& what_if() const { return what_if_; }
  // What --without and --aligned-start take out of the compiled job.
  const std::vector<Ingredient>& left_out() const { return left_out_; }
  // How much longer the CPU takes for all it does (engine/cpu_scale.h).
  double cpu_scale() const { return cpu_scale_; }
  // Whether the figures are of another machine than the recorded one, by --on or --cpu-scale.
  bool retargets() const { return retargets_ || cpu_scale_ != 1; }
  // What there are files of.
  const AcceleratorCatalog& accelerators() const { return *accelerators_; }
  // Some durations of device work come from models instead of the recording.
  bool models_durations() const { return plan_->models_something(); }
  // Classes of kernels; null where nothing is modelled.
  const KernelCostModel* kernels() const { return models_->kernels; }
  // Statements about what the figures rest on, printed with them.
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  // Topology of the platform that options name; it must hold the job.
  absl::Status FindTopology(const std::string& platform, const TraceStore& store);
  int32_t Ranks(const TraceStore& store) const;  // that the platform has to hold
  absl::Status AddScaleOut(const SimulationOptions& options, const TraceStore& store);
  absl::Status AddModules(const TraceStore& store, const ReadExtras& extras);
  absl::Status AddPlatform(const SimulationOptions& options, const TraceStore& store);
  absl::Status AddDurations(const SimulationOptions& options, const TraceStore& store);
  absl::Status AddNetwork(const SimulationOptions& options, const TraceStore& store);
  std::unique_ptr<NetworkModel> Fitted(bool& measured) const;
  absl::Status AddOverheads(const SimulationOptions& options);

  CompileOptions compile_;
  std::unique_ptr<AcceleratorCatalog> accelerators_;
  std::unique_ptr<Topology> topology_;  // outlives the network
  std::unique_ptr<DurationPlan> plan_;
  std::unique_ptr<CalibrationSet> calibration_;  // null: none
  std::unique_ptr<DurationModels> models_;
  std::unique_ptr<OverheadModel> overheads_;
  WhatIf what_if_;
  std::vector<Ingredient> left_out_;
  double cpu_scale_ = 1;
  bool retargets_ = false;
  std::unique_ptr<NetworkModel> network_;  // null: as recorded
  std::unique_ptr<NetworkModel> sizes_;    // for what-ifs, where network_ is null
  std::vector<std::string> notes_;
};

}  // namespace foretrace
