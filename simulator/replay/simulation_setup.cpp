#include "simulator/replay/simulation_setup.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "simulator/base/check.h"
#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/base/utf8.h"
#include "simulator/console/options.h"
#include "simulator/cost/cpu_overhead/overhead_statistics.h"
#include "simulator/cost/roofline/roofline_cost_model.h"
#include "simulator/network/calibrated_transfers.h"
#include "simulator/network/fitted_network.h"
#include "simulator/network/fluid/fluid_network.h"
#include "simulator/network/simgrid/simgrid_network.h"
#include "simulator/reconstruct/recorded_accelerators.h"
#include "simulator/replay/durations/retarget.h"
#include "simulator/topology/platform_loader.h"

namespace foretrace {
namespace {

Ingredient IngredientOf(std::string_view name) {
  if (name == "rank-sync") return Ingredient::kRankSync;
  if (name == "stream-sync") return Ingredient::kStreamSync;
  if (name == "cpu") return Ingredient::kCpu;
  if (name == "blocking") return Ingredient::kBlocking;
  if (name == "fences") return Ingredient::kFences;
  return Ingredient::kContention;
}

}  // namespace

void SimulationOptions::Register(CLI::App& command) {
  command
      .add_option("--semantics", semantics,
                  "full, or algorithm1 (the multi-GPU paper's Algorithm 1)")
      ->check(CLI::IsMember({"full", "algorithm1"}))
      ->capture_default_str();
  command
      .add_option(
          "--without", without,
          "leave ingredients out: rank-sync, stream-sync, cpu, blocking, contention, fences")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(
          CLI::IsMember({"rank-sync", "stream-sync", "cpu", "blocking", "contention", "fences"}));
  command.add_flag("--aligned-start", aligned_start,
                   "start all ranks together instead of with their recorded skew");
  command.add_flag("--allow-missing-ranks", allow_missing_ranks,
                   "simulate the ranks that are there (see --absent)");
  command
      .add_option("--absent", absent,
                  "what stands in for ranks without a trace, with --allow-missing-ranks: "
                  "as-recorded (collectives keep their recorded durations), alike (present members "
                  "meet, absent ones come with them), never-last (a lower bound)")
      ->check(CLI::IsMember({"as-recorded", "alike", "never-last"}))
      ->capture_default_str();
  command
      .add_option(
          "--overheads", overheads,
          "CPU overheads T1..T5: recorded, or a file of statistics (calibrate trace-overheads)")
      ->type_name("recorded|FILE")
      ->capture_default_str();
  command
      .add_option("--what-if", what_if,
                  "change durations: SELECTOR:ACTION, e.g. kind=collective:x0.5, "
                  "name=gemm,rank=0-3:+20us, rank=2:delay=1ms (docs/semantics.md)")
      ->type_name("EDIT");
  command
      .add_option("--platform", platform,
                  "platform file, or the name of one in topologies/; needed by traces without "
                  "durations and by --network")
      ->type_name("FILE|NAME");
  command
      .add_option(
          "--on", on,
          "the recording on another machine: device work as recorded times the ratio of "
          "the models of both devices, communication by the network models, CPU as recorded "
          "(--cpu-scale)")
      ->type_name("FILE|NAME[:NODES]");
  command
      .add_option("--cpu-scale", cpu_scale,
                  "the CPU takes so many times as long as recorded for all it does")
      ->check(CLI::Range(1e-3, 1e3));
  command
      .add_option("--network", network,
                  "communication as recorded, or from a network model: fitted (measured curves of "
                  "the calibration, else closed forms), fluid or simgrid (with contention); "
                  "default: recorded, and fitted for what --durations models")
      ->check(CLI::IsMember({"recorded", "fitted", "fluid", "simgrid"}));
  durations.Register(command);
}

bool LacksDurations(const TraceStore& store) {
  for (const RankTrace& rank : store.ranks()) {
    if (rank.info().has_times) continue;
    bool device_work = false;
    for (uint32_t i = 0; i < rank.size(); ++i) {
      const NodeIndex n(i);
      if (!IsDeviceKind(rank.kind(n))) continue;
      device_work = true;
      if (!rank.has_duration(n)) return true;
    }
    if (!device_work) return true;
  }
  return false;
}

namespace {

// The tier that decides on communication.
std::string NetworkOf(const SimulationOptions& options, const DurationPlan& plan,
                      const TraceStore& store) {
  if (!options.network.empty()) return options.network;
  return plan.ModelsCommunication(store) ? "fitted" : "recorded";
}

}  // namespace

int32_t SimulationSetup::Ranks(const TraceStore& store) const {
  const auto& scale = what_if_.scale_out();
  return std::max(store.world_size(), scale ? scale->ranks() : 0);
}

absl::Status SimulationSetup::AddScaleOut(const SimulationOptions& options,
                                          const TraceStore& store) {
  if (options.ranks == 0) {
    if (options.data_parallel.empty()) return absl::OkStatus();
    return InvalidInput("--data-parallel {} says which groups grow with --ranks, which is missing",
                        Excerpt(options.data_parallel, 60));
  }
  FORETRACE_ASSIGN_OR_RETURN(ScaleOut scale, ScaleOut::Make(options.ranks, options.data_parallel));
  if (compile_.absent == AbsentRanks::kNeverLast) scale.set_arrivals(ArrivalsOf::kPresent);
  what_if_.SetScaleOut(std::move(scale));
  compile_.allow_missing_ranks = true;
  if (compile_.absent == AbsentRanks::kAsRecorded) compile_.absent = AbsentRanks::kAlike;
  const auto at_hand = static_cast<int32_t>(store.ranks().size());
  notes_.push_back(fmt::format(
      "{} ranks from {} of {}: further ranks do what those at hand do; the last of them to arrive "
      "as the spread of these says (beyond what was seen: exponential), groups of data parallelism "
      "grow, others stay as captured",
      options.ranks, at_hand, RecordedRanks(store)));
  return absl::OkStatus();
}

absl::Status SimulationSetup::FindTopology(const std::string& platform, const TraceStore& store) {
  FORETRACE_ASSIGN_OR_RETURN(PlatformSpec spec, FindPlatform(platform, Ranks(store)));
  FORETRACE_ASSIGN_OR_RETURN(Topology topology, Topology::Create(std::move(spec)));
  topology_ = std::make_unique<Topology>(std::move(topology));
  if (topology_->rank_count() < Ranks(store)) {
    return InvalidInput("platform {} places {} ranks, but the job has {}", topology_->spec().name,
                        topology_->rank_count(), Ranks(store));
  }
  return absl::OkStatus();
}

absl::Status SimulationSetup::AddPlatform(const SimulationOptions& options,
                                          const TraceStore& store) {
  if (!options.on.empty()) return FindTopology(options.on, store);
  const bool symbolic = LacksDurations(store);
  const bool modelled = symbolic || NetworkOf(options, *plan_, store) != "recorded";
  if (!modelled && !plan_->models_something() && !what_if_.resizes_collectives()) {
    const bool platform = !options.platform.empty();
    if (platform || !options.durations.calibrations.empty()) {
      return InvalidInput(
          "--{} {} would change nothing: all durations are replayed as recorded; --on PLATFORM "
          "predicts the recording on another machine, --durations model models durations afresh, "
          "--network communication",
          platform ? "platform" : "calibration",
          platform ? options.platform : options.durations.calibrations.front());
    }
  }
  if (options.platform.empty()) {
    if (!modelled) return absl::OkStatus();
    return InvalidInput("{}: {}; say on what to run it with --platform (files in topologies/)",
                        store.ranks().front().info().source,
                        symbolic ? "the trace has no durations"
                        : options.network.empty()
                            ? "--durations needs a platform to model communication on"
                            : "--network needs a platform");
  }
  return FindTopology(options.platform, store);
}

absl::Status SimulationSetup::AddDurations(const SimulationOptions& options,
                                           const TraceStore& store) {
  if (!options.on.empty()) {
    if (LacksDurations(store)) {
      return InvalidInput("--on: {} has no durations to start from; --platform models all of it",
                          store.ranks().front().info().source);
    }
    const Accelerator& target = topology_->spec().node.accelerator;
    if (target.name.empty()) {
      return InvalidInput("--on {}: the platform names no accelerator (node.accelerator)",
                          options.on);
    }
    retargets_ = !RecordedOn(target, *accelerators_, store);
    if (retargets_) compile_.links = DeviceLinks();
    FORETRACE_ASSIGN_OR_RETURN(
        models_, MakeRetargetModels(target, calibration_.get(), *accelerators_, store));
    notes_.insert(notes_.end(), models_->notes.begin(), models_->notes.end());
    return absl::OkStatus();
  }
  const Accelerator* device = topology_ == nullptr ? nullptr : &topology_->spec().node.accelerator;
  FORETRACE_ASSIGN_OR_RETURN(const AttentionMask mask, MaskOf(options.durations, *plan_));
  FORETRACE_ASSIGN_OR_RETURN(models_,
                             MakeDurationModels(*plan_, calibration_.get(), device, store, mask));
  compile_.links = models_->links;
  notes_.insert(notes_.end(), models_->notes.begin(), models_->notes.end());
  if (!LacksDurations(store)) return absl::OkStatus();
  FORETRACE_CHECK(device != nullptr);
  if (device->memory_bandwidth() == Bandwidth() ||
      std::max(device->peak(RateKind::kFp16), device->peak(RateKind::kFp32)) == FlopRate()) {
    return InvalidInput(
        "platform {}: node.accelerator states no peak rate or memory bandwidth, which "
        "traces without durations need",
        topology_->spec().name);
  }
  models_->chain.Append(std::make_unique<RooflineCostModel>(*device));
  notes_.push_back(fmt::format("durations: analytic roofline of {} (a lower bound)",
                               device->name.empty() ? topology_->spec().name : device->name));
  return absl::OkStatus();
}

std::unique_ptr<NetworkModel> SimulationSetup::Fitted(bool& measured) const {
  FittedNetwork::Measured curves;
  measured = calibration_ != nullptr && calibration_->collectives != nullptr;
  if (measured) curves = CalibratedTransfers(calibration_->collectives, *topology_);
  return std::make_unique<FittedNetwork>(*topology_, NetworkOptions(), std::move(curves));
}

absl::Status SimulationSetup::AddNetwork(const SimulationOptions& options,
                                         const TraceStore& store) {
  std::string network = NetworkOf(options, *plan_, store);
  const bool retargeted = retargets_ && options.network.empty();
  if (network == "recorded" && (LacksDurations(store) || retargeted)) network = "fitted";
  if (network == "recorded") {
    bool measured = false;
    if (topology_ != nullptr && what_if_.resizes_collectives()) sizes_ = Fitted(measured);
    if (sizes_ != nullptr) {
      notes_.push_back(
          fmt::format("collectives of other sizes: as recorded, times the ratio of "
                      "both on platform {} ({})",
                      topology_->spec().name, measured ? "measured curves" : "closed forms"));
    }
    return absl::OkStatus();
  }
  compile_.model_communication = true;
  if (options.network.empty() && plan_->models_something()) {
    compile_.model_communication_of = [this_plan = plan_.get(), &store](
                                          const RankTrace& rank, NodeIndex node,
                                          std::string_view communicator) {
      return this_plan->Models(store, rank, node, communicator);
    };
  }
  bool measured = false;
  if (network == "fluid") {
    network_ = std::make_unique<FluidNetwork>(*topology_, NetworkOptions());
  } else if (network == "simgrid") {
    FORETRACE_ASSIGN_OR_RETURN(network_, SimgridNetwork::Create(*topology_, NetworkOptions()));
  } else {
    network_ = Fitted(measured);
  }
  notes_.push_back(fmt::format(
      "communication: {} network on platform {}{}", network_->name(), topology_->spec().name,
      measured ? ", measured curves of " + calibration_->collectives->header().platform
               : std::string()));
  return absl::OkStatus();
}

absl::Status SimulationSetup::AddOverheads(const SimulationOptions& options) {
  if (options.overheads == "recorded") return absl::OkStatus();
  FORETRACE_ASSIGN_OR_RETURN(OverheadStatistics statistics,
                             OverheadStatistics::Load(options.overheads));
  overheads_ = std::make_unique<OverheadStatistics>(std::move(statistics));
  compile_.overheads = overheads_.get();
  notes_.push_back(fmt::format("CPU overheads: means from {}", options.overheads));
  return absl::OkStatus();
}

absl::Status SimulationSetup::AddModules(const TraceStore& store, const ReadExtras& extras) {
  if (!what_if_.selects_modules() && !plan_->selects_modules()) return absl::OkStatus();
  std::vector<ProfileExtras> read;
  if (extras) {
    FORETRACE_ASSIGN_OR_RETURN(read, extras());
  }
  FORETRACE_ASSIGN_OR_RETURN(const std::shared_ptr<const ModuleMap> modules,
                             ModuleMap::Make(store, read));
  what_if_.SetModules(modules);
  plan_->SetModules(modules);
  return absl::OkStatus();
}

namespace {

// Options about what is inferred of a recording, which without times is nothing.
absl::Status CheckUntimed(const SimulationOptions& options, const TraceStore& store) {
  const RankInfo& info = store.ranks().front().info();
  if (info.has_times) return absl::OkStatus();
  std::string idle;
  if (options.semantics == "algorithm1") idle = "--semantics algorithm1";
  if (options.aligned_start) idle = "--aligned-start";
  if (options.absent != "as-recorded") idle = "--absent " + options.absent;
  if (idle.empty()) return absl::OkStatus();
  return InvalidInput("{} would change nothing: {} has no times, only work and its order", idle,
                      info.source);
}

}  // namespace

absl::StatusOr<SimulationSetup> SimulationSetup::Make(const SimulationOptions& options,
                                                      const TraceStore& store,
                                                      const ReadExtras& extras) {
  SimulationSetup setup;
  if (!options.on.empty()) {
    const DurationOptions& durations = options.durations;
    const std::string_view other = !options.platform.empty()           ? "--platform"
                                   : !durations.durations.empty()      ? "--durations"
                                   : !durations.attention_mask.empty() ? "--attention-mask"
                                                                       : "";
    if (!other.empty()) {
      return InvalidInput("--on {}: says by itself on what and how durations change; leave out {}",
                          options.on, other);
    }
  }
  FORETRACE_ASSIGN_OR_RETURN(DurationPlan plan, DurationPlan::Parse(options.durations.durations));
  setup.plan_ = std::make_unique<DurationPlan>(std::move(plan));
  FORETRACE_ASSIGN_OR_RETURN(setup.calibration_, FindCalibrations(options.durations.calibrations));
  FORETRACE_ASSIGN_OR_RETURN(AcceleratorCatalog accelerators, LoadRecordedAccelerators(store));
  setup.accelerators_ = std::make_unique<AcceleratorCatalog>(std::move(accelerators));
  CompileOptions& compile = setup.compile_;
  compile.accelerators = setup.accelerators_.get();
  compile.semantics = options.semantics == "algorithm1" ? Semantics::kAlgorithm1 : Semantics::kFull;
  for (const std::string& ingredient : options.without) {
    setup.left_out_.push_back(IngredientOf(ingredient));
  }
  if (options.aligned_start) setup.left_out_.push_back(Ingredient::kStartSkew);
  compile.allow_missing_ranks = options.allow_missing_ranks;
  if (options.absent == "alike") compile.absent = AbsentRanks::kAlike;
  if (options.absent == "never-last") compile.absent = AbsentRanks::kNeverLast;
  FORETRACE_ASSIGN_OR_RETURN(setup.what_if_, WhatIf::Parse(options.what_if));
  FORETRACE_RETURN_IF_ERROR(CheckAllHaveTimes(store));
  FORETRACE_RETURN_IF_ERROR(CheckUntimed(options, store));
  FORETRACE_RETURN_IF_ERROR(setup.AddScaleOut(options, store));
  FORETRACE_RETURN_IF_ERROR(setup.AddModules(store, extras));
  FORETRACE_RETURN_IF_ERROR(setup.AddPlatform(options, store));
  FORETRACE_RETURN_IF_ERROR(setup.AddDurations(options, store));
  FORETRACE_RETURN_IF_ERROR(setup.AddNetwork(options, store));
  FORETRACE_RETURN_IF_ERROR(setup.AddOverheads(options));
  compile.keep_overheads = setup.what_if_.edits_overheads();
  compile.durations = &setup.models_->chain;
  setup.cpu_scale_ = options.cpu_scale;
  if (!options.on.empty() || options.cpu_scale != 1) {
    setup.notes_.push_back(options.cpu_scale == 1
                               ? std::string("CPU: as recorded (--cpu-scale)")
                               : fmt::format("CPU: {:g} times as long as recorded for all it does",
                                             options.cpu_scale));
  }
  if (!options.what_if.empty()) {
    setup.notes_.push_back(
        fmt::format("what if: {}; the figures are not a prediction of the recorded run",
                    fmt::join(options.what_if, " and ")));
  }
  if (options.semantics == "algorithm1") {
    setup.notes_.push_back("semantics: the multi-GPU paper's Algorithm 1");
  }
  if (!options.without.empty()) {
    setup.notes_.push_back(fmt::format("ablation: without {}", fmt::join(options.without, ", ")));
  }
  return setup;
}

}  // namespace foretrace
