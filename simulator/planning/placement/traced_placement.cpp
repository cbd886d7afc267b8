#include "simulator/planning/placement/traced_placement.h"

#include <algorithm>
#include <map>
#include <set>

#include "absl/container/flat_hash_map.h"
#include "simulator/backends/op_placement.h"
#include "simulator/backends/pattern_generator.h"
#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/capture/traced_regions.h"
#include "simulator/engine/replay.h"
#include "simulator/engine/restructure.h"
#include "simulator/engine/step_times.h"
#include "simulator/planning/placement/placement_problem.h"
#include "simulator/replay/simulation_setup.h"

namespace foretrace {
namespace {

constexpr int32_t kRecorded = 0;  // backends follow from 1 on

// What a rank's device is to a placement.
struct Pricing {
  KernelTimer timer;
  SimTime launch = kPublishedLaunch;
};

class Placer {
 public:
  Placer(const TraceStore& store, const TracedPlacementSetup& setup)
      : store_(store), setup_(setup) {
    placed_.trace = store.ranks().front().info().source;
    placed_.ranks = static_cast<int64_t>(store.ranks().size());
  }

  absl::StatusOr<TracedPlacement> Run() {
    for (const RankTrace& rank : store_.ranks()) {
      if (!rank.info().has_times) return NothingRecorded(rank.info().source);
    }
    SimulationOptions options;
    options.allow_missing_ranks = setup_.allow_missing_ranks;
    FORETRACE_ASSIGN_OR_RETURN(const SimulationSetup simulation,
                               SimulationSetup::Make(options, store_));
    FORETRACE_ASSIGN_OR_RETURN(CompiledJob job, Compile(store_, simulation.compile()));
    if (job.symbolic) return NothingRecorded(placed_.trace);
    FORETRACE_ASSIGN_OR_RETURN(const Prediction before, Replay(store_, job, simulation.network()));
    gone_.ranks.resize(job.program.ranks.size());
    for (uint32_t r = 0; r < store_.ranks().size(); ++r) {
      FORETRACE_RETURN_IF_ERROR(PlaceRank(r, job.program));
    }
    if (placed_.operators == 0) {
      return InvalidInput(
          "{}: no kernel belongs to a call with a known operator and shapes; record shapes "
          "(record_shapes=True), or give the execution trace too",
          placed_.trace);
    }
    for (const std::string& name : for_inference_) {
      placed_.notes.push_back(
          fmt::format("{} runs inference alone, and the recording trains: not considered", name));
    }
    FreeLaunches(job.program);
    for (std::vector<uint32_t>& items : gone_.ranks) std::ranges::sort(items);
    RemoveDeviceWork(job.program, gone_);
    FORETRACE_ASSIGN_OR_RETURN(const Prediction after,
                               Replay(store_, std::move(job), simulation.network()));
    const std::optional<int64_t> step = RepresentativeStep(store_, before);
    MeasureStep(step, before, placed_.step_before, placed_.period_before);
    MeasureStep(step, after, placed_.step_after, placed_.period_after);
    for (auto& [key, region] : regions_) placed_.regions.push_back(std::move(region));
    std::ranges::stable_sort(placed_.regions, std::greater<>(),
                             [](const ReplacedRegion& r) { return r.before - r.after; });
    return std::move(placed_);
  }

 private:
  static absl::Status NothingRecorded(const std::string& trace) {
    return InvalidInput(
        "{}: no times of kernels were recorded, so there is nothing to replace; give the Kineto "
        "trace "
        "of the run, or place the network or model by itself",
        trace);
  }

  absl::StatusOr<const Pricing*> PricingOf(const RankTrace& rank) {
    const std::string& name = setup_.device.empty() ? rank.info().device_name : setup_.device;
    const auto [entry, is_new] = pricing_.try_emplace(name);
    if (!is_new) return &entry->second;
    Pricing& pricing = entry->second;
    const absl::StatusOr<ModelledDevice> device =
        FindModelledDevice(name, setup_.kernels, placed_.notes);
    if (device.ok()) {
      pricing.timer = device->timer();
      pricing.launch = setup_.launch.value_or(device->device.driver.latencies.stream_gap);
      placed_.notes.push_back("fused kernels: recorded times scaled by " +
                              device->kernels->Source());
    } else if (!setup_.device.empty()) {
      return device.status();
    } else if (setup_.costs.rows() == 0) {
      return InvalidInput("{}; --device NAME takes another one's file",
                          std::string(device.status().message()));
    } else {
      pricing.launch = setup_.launch.value_or(kPublishedLaunch);
      placed_.notes.push_back(fmt::format(
          "'{}' cannot be modelled: only kernels with measured times are considered", name));
    }
    return &pricing;
  }

  absl::Status PlaceRank(uint32_t r, Program& program) {
    const RankTrace& rank = store_.ranks()[r];
    FORETRACE_ASSIGN_OR_RETURN(const Pricing* pricing, PricingOf(rank));
    items_.clear();
    const std::vector<Item>& items = program.ranks[r].items;
    for (uint32_t i = 0; i < items.size(); ++i) {
      if (items[i].kind != ItemKind::kDevice) continue;
      items_[items[i].node.value] = i;
      ++placed_.kernels;
      placed_.device_time += items[i].duration;
    }
    bool by_storage = true;
    for (const int64_t iteration : IterationsOf(store_, rank)) {
      const TracedRegions regions = RegionsOf(store_, rank, iteration);
      if (regions.dag.size() == 0) continue;
      ++placed_.iterations;
      by_storage = by_storage && regions.by_storage;
      FORETRACE_RETURN_IF_ERROR(PlaceIteration(r, regions, *pricing, program));
    }
    if (!by_storage && r == 0) {
      placed_.notes.push_back(
          "the recording does not say which tensor is which: an operator is taken to read the one "
          "before where shapes fit; add the execution trace to know");
    }
    return absl::OkStatus();
  }

  absl::Status PlaceIteration(uint32_t r, const TracedRegions& regions, const Pricing& pricing,
                              Program& program) {
    placed_.operators += regions.dag.size();
    std::vector<KernelChoice> choices;
    for (int32_t op = 0; op < regions.dag.size(); ++op) {
      const auto at = static_cast<size_t>(op);
      choices.push_back({{op},
                         kRecorded,
                         regions.recorded[at],
                         EstimateSource::kRecorded,
                         false,
                         static_cast<int32_t>(regions.kernels[at].size())});
      placed_.operator_time += regions.recorded[at];
    }
    GeneratedMatches generated = GenerateMatches(regions.dag, setup_.backends);
    for (const BackendMatch& match : generated.matches) {
      const Backend& backend = setup_.backends[static_cast<size_t>(match.backend)];
      if (regions.trains && backend.inference_only) {
        for_inference_.insert(backend.name);
        continue;
      }
      if (!CanReplace(regions, match.ops)) continue;
      const std::optional<Estimate> time = TimeOf(regions, match, pricing);
      if (!time.has_value()) continue;
      choices.push_back(
          {match.ops, match.backend + 1, time->time, time->source, time->extrapolated});
      choices.back().launch = backend.launch;
    }
    const absl::StatusOr<OpPlacement> best = PlaceOps(regions.dag, choices, pricing.launch);
    if (absl::IsFailedPrecondition(best.status())) {
      placed_.notes.push_back(fmt::format("rank {}, {} operators: left as recorded, {}",
                                          store_.ranks()[r].info().rank, regions.dag.size(),
                                          std::string(best.status().message())));
      return absl::OkStatus();
    }
    if (!best.ok()) return best.status();
    for (const int32_t choice : best->choices) {
      const KernelChoice& kernel = choices[static_cast<size_t>(choice)];
      if (kernel.backend != kRecorded) Replace(r, regions, kernel, program);
    }
    if (r == 0 && !placed_.graph.has_value()) {
      PlacementAnswer graph;
      graph.choices = std::move(choices);
      graph.refused = std::move(generated.refused);
      graph.launch = pricing.launch;
      graph.placement = *best;
      Keep(regions, std::move(graph));
    }
    return absl::OkStatus();
  }

  void Keep(const TracedRegions& regions, PlacementAnswer graph) {
    placed_.dag = std::make_shared<const OperatorView>(regions.dag);
    graph.dag = placed_.dag.get();
    graph.backends.resize(kRecorded + 1);
    graph.backends[kRecorded].name = "recorded";
    graph.backends.insert(graph.backends.end(), setup_.backends.begin(), setup_.backends.end());
    for (RefusedMatch& refused : graph.refused) refused.backend += kRecorded + 1;
    placed_.graph = std::move(graph);
  }

  // All its kernels are in the program, on one stream.
  bool CanReplace(const TracedRegions& regions, const std::vector<int32_t>& ops) const {
    for (const int32_t op : ops) {
      for (const NodeIndex node : regions.kernels[static_cast<size_t>(op)]) {
        if (!items_.contains(node.value)) return false;
      }
    }
    return true;
  }

  // An update of all parameters in one pass; nullopt: it is no update, or is so already.
  static std::optional<Estimate> FusedUpdate(const ViewedOp& op, const Pricing& pricing) {
    if (op.calls.size() != 1) return std::nullopt;
    OperatorCall call = op.calls.front();
    auto* update = std::get_if<OptimizerOp>(&call.shape);
    if (update == nullptr || update->impl == OptimizerImpl::kFused) return std::nullopt;
    update->impl = OptimizerImpl::kFused;
    ViewedOp fused = op;
    fused.calls = {call};
    return EstimateGroup(OperatorView("update", {std::move(fused)}), {0}, pricing.timer);
  }

  std::optional<Estimate> TimeOf(const TracedRegions& regions, const BackendMatch& match,
                                 const Pricing& pricing) const {
    const Backend& backend = setup_.backends[static_cast<size_t>(match.backend)];
    if (const auto measured = setup_.costs.Find(regions.dag, match.ops, backend)) {
      return Estimate{*measured, EstimateSource::kRecorded, false};
    }
    // Of a single operator a model knows no difference between backends, but for updates of
    // parameters, which the recording has as many kernels.
    if (!pricing.timer) return std::nullopt;
    std::optional<Estimate> together =
        match.ops.size() > 1 ? EstimateGroup(regions.dag, match.ops, pricing.timer)
                             : FusedUpdate(regions.dag.op(match.ops.front()), pricing);
    if (!together.has_value()) return std::nullopt;
    SimTime apart, recorded;
    for (const int32_t op : match.ops) {
      const std::optional<Estimate> alone = EstimateGroup(regions.dag, {op}, pricing.timer);
      if (!alone.has_value()) return std::nullopt;
      apart += alone->time;
      recorded += regions.recorded[static_cast<size_t>(op)];
    }
    if (apart <= SimTime()) return std::nullopt;
    together->time = recorded.ScaledBy(together->time.seconds() / apart.seconds());
    return together;
  }

  void Replace(uint32_t r, const TracedRegions& regions, const KernelChoice& kernel,
               Program& program) {
    const std::vector<Item>& all = program.ranks[r].items;
    std::vector<uint32_t> items;
    SimTime before;
    std::string types;
    for (const int32_t op : kernel.ops) {
      types += (types.empty() ? "" : "+") + regions.dag.op(op).type;
      for (const NodeIndex node : regions.kernels[static_cast<size_t>(op)]) {
        items.push_back(items_.at(node.value));
        before += all[items.back()].duration;
      }
    }
    SetDuration(program, r, items.back(), {kernel.time, kernel.source, kernel.extrapolated});
    items.pop_back();
    gone_.ranks[r].insert(gone_.ranks[r].end(), items.begin(), items.end());
    ReplacedRegion& region = regions_[{kernel.backend, types}];
    region.backend = setup_.backends[static_cast<size_t>(kernel.backend) - 1].name;
    region.types = types;
    ++region.times;
    region.kernels += static_cast<int64_t>(items.size()) + 1;
    region.before += before;
    region.after += kernel.time;
    region.source = std::max(region.source, kernel.source);
    placed_.replaced += before;
    placed_.replacement += kernel.time;
    placed_.kernels_gone += static_cast<int64_t>(items.size());
  }

  // What the CPU did from the call before to a launch that is gone was done for that launch.
  void FreeLaunches(Program& program) {
    for (size_t r = 0; r < program.ranks.size(); ++r) {
      RankProgram& rank = program.ranks[r];
      std::map<uint32_t, int64_t> left;  // device items that a launch has, less those that are gone
      for (const uint32_t i : gone_.ranks[r]) {
        if (rank.items[i].issuer != kNoItem) left.try_emplace(rank.items[i].issuer, 0);
      }
      for (const Item& item : rank.items) {
        if (const auto it = left.find(item.issuer); it != left.end()) ++it->second;
      }
      for (const uint32_t i : gone_.ranks[r]) {
        if (rank.items[i].issuer != kNoItem) --left[rank.items[i].issuer];
      }
      for (const auto& [launch, others] : left) {
        if (others > 0) continue;
        placed_.cpu_saved += rank.items[launch].lead + rank.items[launch].duration;
        rank.items[launch].lead = SimTime();
      }
    }
  }

  void MeasureStep(const std::optional<int64_t>& number, const Prediction& prediction,
                   SimTime& step, std::optional<SimTime>& period) const {
    if (number.has_value()) {
      for (const auto& rank : MeasureSteps(store_, prediction)) {
        for (const MeasuredStep& measured : rank) {
          if (measured.number != *number) continue;
          step = std::max(step, measured.predicted.completion);
          if (measured.predicted.period.has_value()) {
            period = std::max(period.value_or(SimTime()), *measured.predicted.period);
          }
        }
      }
    }
    if (step == SimTime()) step = prediction.schedule.makespan;
  }

  const TraceStore& store_;
  const TracedPlacementSetup& setup_;
  TracedPlacement placed_;
  std::map<std::string, Pricing> pricing_;         // by device
  absl::flat_hash_map<uint32_t, uint32_t> items_;  // of the rank, by node
  ItemSet gone_;
  std::set<std::string> for_inference_;  // backends that were not considered
  std::map<std::pair<int32_t, std::string>, ReplacedRegion> regions_;
};

}  // namespace

absl::StatusOr<TracedPlacement> PlaceTraces(const TraceStore& store,
                                            const TracedPlacementSetup& setup) {
  return Placer(store, setup).Run();
}

absl::StatusOr<std::vector<TracedStep>> AblateTraces(const TraceStore& store,
                                                     const TracedPlacementSetup& setup) {
  std::vector<TracedStep> steps;
  TracedPlacementSetup some = setup;
  some.backends.clear();
  for (const Backend& backend : setup.backends) {
    some.backends.push_back(backend);
    FORETRACE_ASSIGN_OR_RETURN(const TracedPlacement placed, PlaceTraces(store, some));
    steps.push_back({backend.name, placed.step_after, placed.period_after});
  }
  return steps;
}

}  // namespace foretrace
