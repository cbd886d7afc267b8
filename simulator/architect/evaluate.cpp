#include "simulator/architect/evaluate.h"

#include <algorithm>
#include <chrono>
#include <limits>

#include "simulator/base/error.h"
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
}

absl::StatusOr<ArchitectModel> PrepareModel(const TransformerConfig& config,
                                            const TrainingSetup& setup) {
  ArchitectModel model;
  model.name = config.name;
  absl::Status reason;
  for (const int32_t width : setup.widths) {
    for (const int32_t micro_batch : setup.micro_batches) {
      if (width > setup.devices || micro_batch > setup.global_batch) continue;
      absl::StatusOr<SlicedModel> slice = SliceModel(config, width, micro_batch);
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
        config.name, setup.devices, setup.global_batch);
  }
  return model;
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
  const double work =
      bound(s.embedding) + bound(s.head) + static_cast<double>(s.blocks) * bound(s.block);
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
  for (const auto& [work, seconds] : {std::pair(&layer.forward, &times.forward_s),
                                      std::pair(&layer.backward, &times.backward_s)}) {
    CoreGraph graph;
    {
      const Stopwatch watch(seconds_.estimates);
      graph = estimator_.Timed(*work, width);
    }
    const Stopwatch watch(seconds_.schedules);
    FORETRACE_ASSIGN_OR_RETURN(
        const CoreSchedule schedule,
        ScheduleCores(graph, {design_.tensor_cores, design_.vector_cores}, setup_.limits));
    *seconds = schedule.makespan.seconds();
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

absl::StatusOr<PhazeProblem> DesignEvaluator::ProblemOf(const SlicedModel& s, bool recompute) {
  PhazeProblem problem;
  problem.accelerators = setup_.devices;
  problem.microbatches = (setup_.global_batch + s.micro_batch - 1) / s.micro_batch;
  problem.bandwidth = machine_.link.bytes_per_second();
  problem.memory_bytes = static_cast<double>(setup_.hbm.count());
  problem.optimizer_factor = setup_.optimizer_factor;
  problem.recompute = recompute;
  problem.layers = static_cast<int32_t>(s.blocks) + 2;
  std::vector<PhazeLayer>& layers = problem.by_width[s.width];
  const auto add = [&](const LayerSlice& slice) -> absl::Status {
    FORETRACE_ASSIGN_OR_RETURN(const LayerTimes times, Schedule(slice, s.width));
    const auto at = static_cast<int32_t>(layers.size());
    if (at > 0) problem.edges.push_back({at - 1, at, static_cast<double>(slice.input.count())});
    layers.push_back({times.forward_s, times.backward_s,
                      static_cast<double>(slice.parameters.count()),
                      static_cast<double>(slice.activations.count()), s.width > 1});
    return absl::OkStatus();
  };
  FORETRACE_RETURN_IF_ERROR(add(s.embedding));
  for (int64_t i = 0; i < s.blocks; ++i) FORETRACE_RETURN_IF_ERROR(add(s.block));
  FORETRACE_RETURN_IF_ERROR(add(s.head));
  return problem;
}

absl::StatusOr<PhazeProblem> DesignEvaluator::ProblemOf(const ArchitectModel& model,
                                                        const ModelPlan& plan) {
  for (const SlicedModel& slice : model.slices) {
    if (slice.width == plan.placement.width && slice.micro_batch == plan.micro_batch) {
      return ProblemOf(slice, plan.recompute);
    }
  }
  return InvalidInput("{}: width {} and micro-batch {} are not among those given", model.name,
                      plan.placement.width, plan.micro_batch);
}

// Whether a stage of one layer fits: no placement has smaller ones.
bool DesignEvaluator::FitsAtAll(const SlicedModel& s) const {
  for (const LayerSlice* layer : {&s.embedding, &s.block, &s.head}) {
    const double bytes =
        (2 + setup_.optimizer_factor) * static_cast<double>(layer->parameters.count()) +
        static_cast<double>(layer->activations.count());
    if (bytes > static_cast<double>(setup_.hbm.count())) return false;
  }
  return true;
}

// Of the tensor cores' peak; matrix products of forward and backward pass, without recomputation.
double DesignEvaluator::Mfu(const SlicedModel& s, double throughput) const {
  const double flop = 3 * s.product_flop.count() / s.micro_batch;
  const double peak = 2 * static_cast<double>(design_.macs()) * machine_.clock_Hz;
  return throughput * flop / (peak * setup_.devices);
}

absl::StatusOr<ModelPlan> DesignEvaluator::Evaluate(const ArchitectModel& model, double floor) {
  std::vector<std::pair<double, const SlicedModel*>> order;
  {
    const Stopwatch watch(seconds_.estimates);
    for (const SlicedModel& slice : model.slices) order.emplace_back(BoundOf(slice), &slice);
  }
  std::stable_sort(order.begin(), order.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  ModelPlan best;
  bool passed_over = false;
  for (const auto& [bound, slice] : order) {
    if (!FitsAtAll(*slice)) continue;
    if (bound <= floor) {
      passed_over = true;
      break;
    }
    for (const bool recompute : {false, true}) {
      if (bound <= best.throughput) break;
      FORETRACE_ASSIGN_OR_RETURN(const PhazeProblem problem, ProblemOf(*slice, recompute));
      const Stopwatch watch(seconds_.placements);
      absl::StatusOr<PhazePlan> placed = PlacePhaze(problem);
      if (absl::IsFailedPrecondition(placed.status())) continue;
      if (!placed.ok()) return placed.status();
      const double throughput = setup_.global_batch / placed->batch_s;
      if (throughput <= best.throughput) continue;
      // One stage keeps nothing beside what it works on: recomputation is not used then.
      const bool used = recompute && placed->stages.size() > 1;
      best = {throughput, slice->micro_batch, used, *std::move(placed), Mfu(*slice, throughput)};
    }
  }
  if (best.placement.stages.empty() && !passed_over) {
    return Infeasible(
        "{}: no placement on {} devices fits in {:.2f} GiB each, at any width or micro-batch "
        "given; more HBM, more devices, larger widths or smaller micro-batches would help",
        model.name, setup_.devices, static_cast<double>(setup_.hbm.count()) / (1 << 30));
  }
  return best;
}

absl::StatusOr<ModelPlan> DesignEvaluator::EvaluateFixed(const ArchitectModel& model,
                                                         int32_t stages, int32_t width,
                                                         int32_t data_parallel) {
  ModelPlan best;
  for (const SlicedModel& slice : model.slices) {
    if (slice.width != width) continue;
    FORETRACE_ASSIGN_OR_RETURN(const PhazeProblem problem, ProblemOf(slice, false));
    FORETRACE_ASSIGN_OR_RETURN(PhazePlan placed,
                               EvaluateFixedPlacement(problem, stages, width, data_parallel));
    const double throughput = setup_.global_batch / placed.batch_s;
    if (throughput <= best.throughput) continue;
    best = {throughput, slice.micro_batch, false, std::move(placed), Mfu(slice, throughput)};
  }
  if (best.placement.stages.empty()) {
    return InvalidInput("{}: width {} is not among those given", model.name, width);
  }
  return best;
}

}  // namespace foretrace
