#include "simulator/architect/evaluate.h"

#include <algorithm>
#include <chrono>

#include "simulator/architect/workload_layers.h"
#include "simulator/base/error.h"
#include "simulator/base/gib.h"
#include "simulator/base/status_macros.h"

namespace foretrace {
namespace {

class Stopwatch {
 public:
  explicit Stopwatch(double& sum) : sum_(sum) {}
  ~Stopwatch() {
    sum_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

 private:
  double& sum_;
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

// None: the model has no slice of the option.
const SlicedModel* SliceOf(const ArchitectModel& model, const PhazeOption& option) {
  for (const SlicedModel& slice : model.slices) {
    if (slice.width == option.width && slice.micro_batch == option.micro_batch) return &slice;
  }
  return nullptr;
}

}  // namespace

void ScheduleStatistics::Add(const ScheduleStatistics& o) {
  layers += o.layers;
  proven += o.proven;
  worst_gap = std::max(worst_gap, o.worst_gap);
}

void SearchSeconds::Add(const SearchSeconds& o) {
  estimates += o.estimates;
  schedules += o.schedules;
  placements += o.placements;
  longest_schedule = std::max(longest_schedule, o.longest_schedule);
}

namespace {

template <typename Slicer>
absl::StatusOr<ArchitectModel> Prepare(const std::string& name, const TrainingSetup& setup,
                                       const std::vector<int32_t>& micro_batches,
                                       const Slicer& slice_of) {
  ArchitectModel model;
  model.name = name;
  absl::Status reason;
  for (const int32_t width : setup.widths) {
    for (const int32_t micro_batch : micro_batches) {
      if (width > setup.devices || micro_batch > setup.global_batch) continue;
      absl::StatusOr<SlicedModel> slice = slice_of(width, micro_batch);
      if (slice.ok()) {
        model.slices.push_back(*std::move(slice));
      } else {
        reason = slice.status();
      }
    }
  }
  if (model.slices.empty() && !reason.ok()) return reason;
  if (model.slices.empty()) {
    return InvalidInput(
        "{}: every width exceeds the {} devices, or every micro-batch the {} "
        "samples of a batch",
        name, setup.devices, setup.global_batch);
  }
  return model;
}

}  // namespace

absl::StatusOr<ArchitectModel> PrepareModel(const TransformerConfig& config,
                                            const TrainingSetup& setup) {
  return Prepare(config.name, setup, setup.micro_batches, [&](int32_t width, int32_t micro_batch) {
    return SliceModel(config, width, micro_batch);
  });
}

absl::StatusOr<ArchitectModel> PrepareModel(const Workload& workload, const TrainingSetup& setup) {
  std::vector<int32_t> micro_batches = setup.micro_batches;
  micro_batches.push_back(static_cast<int32_t>(workload.call_samples));
  std::sort(micro_batches.begin(), micro_batches.end());
  micro_batches.erase(std::unique(micro_batches.begin(), micro_batches.end()), micro_batches.end());
  return Prepare(workload.name, setup, micro_batches, [&](int32_t width, int32_t micro_batch) {
    return SliceWorkload(workload, width, micro_batch);
  });
}

void DesignEvaluator::SetDesign(const AcceleratorDesign& design) {
  design_ = design;
  estimator_.SetDesign(design);
  times_.clear();
}

// A pipeline's slowest stage is at least the mean over its devices of all work of a micro-batch,
// and a batch has batch / (micro-batch * data parallelism) of them.
double DesignEvaluator::BoundOf(const SlicedModel& s) {
  const auto bound = [&](const LayerSlice& layer) {
    return (estimator_.Bound(layer.forward, s.width) + estimator_.Bound(layer.backward, s.width))
        .seconds();
  };
  std::vector<double> of_kind;
  for (const LayerSlice& kind : s.kinds) of_kind.push_back(bound(kind));
  double work = 0;
  for (const int32_t kind : s.chain) work += of_kind[static_cast<size_t>(kind)];
  return static_cast<double>(setup_.devices) * s.micro_batch / (s.width * work);
}

double DesignEvaluator::Bound(const ArchitectModel& model) {
  const Stopwatch watch(seconds_.estimates);
  double best = 0;
  for (const SlicedModel& slice : model.slices) best = std::max(best, BoundOf(slice));
  return best;
}

absl::StatusOr<DesignEvaluator::LayerTimes> DesignEvaluator::Schedule(const LayerSlice& layer,
                                                                      int32_t width) {
  if (const auto it = times_.find(&layer); it != times_.end()) return it->second;
  LayerTimes times;
  for (const auto& [work, time] :
       {std::pair(&layer.forward, &times.forward), std::pair(&layer.backward, &times.backward)}) {
    CoreGraph graph;
    {
      const Stopwatch watch(seconds_.estimates);
      graph = estimator_.Timed(*work, width);
    }
    double taken = 0;
    absl::StatusOr<CoreSchedule> found;
    {
      const Stopwatch watch(taken);
      found = ScheduleCores(graph, {design_.tensor_cores, design_.vector_cores}, setup_.limits);
    }
    seconds_.schedules += taken;
    seconds_.longest_schedule = std::max(seconds_.longest_schedule, taken);
    FORETRACE_ASSIGN_OR_RETURN(const CoreSchedule schedule, std::move(found));
    *time = schedule.makespan;
    ++statistics_.layers;
    if (schedule.optimal()) {
      ++statistics_.proven;
    } else {
      statistics_.worst_gap = std::max(statistics_.worst_gap,
                                       schedule.makespan.seconds() / schedule.bound.seconds() - 1);
    }
  }
  times_[&layer] = times;
  return times;
}

absl::StatusOr<PhazeLayers> DesignEvaluator::LayersOf(const SlicedModel& s) {
  PhazeLayers model;
  for (const int32_t kind : s.chain) {
    const LayerSlice& slice = s.kinds[static_cast<size_t>(kind)];
    FORETRACE_ASSIGN_OR_RETURN(const LayerTimes times, Schedule(slice, s.width));
    const auto at = static_cast<int32_t>(model.layers.size());
    if (at > 0) model.edges.push_back({at - 1, at, RealBytes(slice.input)});
    model.layers.push_back({RealSeconds(times.forward.seconds()),
                            RealSeconds(times.backward.seconds()), RealBytes(slice.parameters),
                            RealBytes(slice.activations), s.width > 1});
  }
  return model;
}

PhazeProblem DesignEvaluator::ProblemOf(const ArchitectModel& model) {
  PhazeProblem problem;
  problem.accelerators = setup_.devices;
  problem.samples = setup_.global_batch;
  problem.bandwidth = machine_.link;
  problem.memory = RealBytes(setup_.hbm);
  problem.optimizer_factor = setup_.optimizer_factor;
  problem.activations = {PhazeActivations::kStash, PhazeActivations::kRecompute};
  problem.layers = static_cast<int32_t>(model.slices.front().chain.size());
  for (const SlicedModel& slice : model.slices) {
    const Stopwatch watch(seconds_.estimates);
    const RealSeconds bound = FitsAtAll(slice) ? RealSeconds(setup_.global_batch / BoundOf(slice))
                                               : RealSeconds::Infinite();
    problem.options.push_back({slice.width, slice.micro_batch, bound});
  }
  problem.layers_of = [this, &model](const PhazeOption& option) {
    return LayersOf(*SliceOf(model, option));
  };
  return problem;
}

// Whether a stage of one layer fits: no placement has smaller ones.
bool DesignEvaluator::FitsAtAll(const SlicedModel& s) const {
  for (const LayerSlice& layer : s.kinds) {
    const double bytes =
        (2 + setup_.optimizer_factor) * static_cast<double>(layer.parameters.count()) +
        static_cast<double>(layer.activations.count());
    if (bytes > static_cast<double>(setup_.hbm.count())) return false;
  }
  return true;
}

// Of the tensor cores' peak; GEMMs of forward and backward pass, without recomputation.
double DesignEvaluator::Mfu(const SlicedModel& s, double throughput) const {
  const double flop = 3 * s.gemm_flop.count() / s.micro_batch;
  const double peak = 2 * static_cast<double>(design_.macs()) * machine_.clock_Hz;
  return throughput * flop / (peak * setup_.devices);
}

ModelPlan DesignEvaluator::PlanOf(const ArchitectModel& model, PhazePlan placement) const {
  const double throughput = setup_.global_batch / placement.batch.seconds();
  const double mfu = Mfu(*SliceOf(model, placement.option()), throughput);
  return {throughput, std::move(placement), mfu};
}

absl::StatusOr<ModelPlan> DesignEvaluator::Evaluate(const ArchitectModel& model, double floor) {
  PhazeProblem problem = ProblemOf(model);
  if (floor > 0) problem.bound_below = RealSeconds(setup_.global_batch / floor);
  const double before = seconds_.estimates + seconds_.schedules;
  absl::StatusOr<PhazePlan> placed;
  {
    const Stopwatch watch(seconds_.placements);
    placed = PlacePhaze(problem);
  }
  // Layers are estimated and scheduled as placements ask for them.
  seconds_.placements -= seconds_.estimates + seconds_.schedules - before;
  if (absl::IsFailedPrecondition(placed.status())) {
    return Infeasible(
        "{}: no placement on {} devices fits in {:.2f} GiB each, at any width or micro-batch "
        "given; more HBM, more devices, larger widths or smaller micro-batches would help",
        model.name, setup_.devices, Gib(setup_.hbm));
  }
  if (!placed.ok()) return placed.status();
  if (placed->stages.empty()) return ModelPlan();
  return PlanOf(model, *std::move(placed));
}

absl::StatusOr<ModelPlan> DesignEvaluator::EvaluateFixed(const ArchitectModel& model,
                                                         int32_t stages, int32_t width,
                                                         int32_t data_parallel) {
  FORETRACE_ASSIGN_OR_RETURN(
      PhazePlan placed, EvaluateFixedPlacement(ProblemOf(model), stages, width, data_parallel));
  return PlanOf(model, std::move(placed));
}

}  // namespace foretrace
