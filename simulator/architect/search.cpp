#include "simulator/architect/search.h"

#include <algorithm>
#include <atomic>
#include <numeric>
#include <thread>

#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"

namespace foretrace {
namespace {

double Relative(const SearchSetup& setup, size_t model, double throughput) {
  return model < setup.reference.size() ? throughput / setup.reference[model] : throughput;
}
double PerObjective(const SearchSetup& setup, const SizedDesign& design, double score) {
  return setup.objective == Objective::kPerArea ? score / design.area.mm2() : score;
}
double TotalWeight(const std::vector<SearchedModel>& models) {
  double sum = 0;
  for (const SearchedModel& m : models) sum += m.weight;
  return sum;
}

// Evaluates every model on a design, as long as its score can be above `floor`.
absl::StatusOr<EvaluatedDesign> EvaluateDesign(DesignEvaluator& evaluator,
                                               const std::vector<SearchedModel>& models,
                                               const SizedDesign& design, const SearchSetup& setup,
                                               double floor) {
  evaluator.SetDesign(design.design);
  EvaluatedDesign result{design, {}, 0};
  const double total = TotalWeight(models);
  std::vector<double> share;  // of the score, at most
  for (size_t m = 0; m < models.size(); ++m) {
    share.push_back(Relative(setup, m, evaluator.Bound(models[m].model)) * models[m].weight /
                    total);
  }
  // What all shares together must exceed.
  const double target = setup.objective == Objective::kPerArea ? floor * design.area.mm2() : floor;
  for (size_t m = 0; m < models.size(); ++m) {
    const double others = std::accumulate(share.begin(), share.end(), 0.0) - share[m];
    const double unit = Relative(setup, m, 1) * models[m].weight / total;
    // Less a rounding error: a bound is left out only where it surely does not reach.
    const double needed = (target - others) / unit * (1 - 1e-12);
    FORETRACE_ASSIGN_OR_RETURN(ModelPlan plan, evaluator.Evaluate(models[m].model, needed));
    if (plan.placement.stages.empty()) return EvaluatedDesign{design, {}, 0};
    share[m] = unit * plan.throughput;
    result.plans.push_back(std::move(plan));
  }
  result.score = PerObjective(setup, design, std::accumulate(share.begin(), share.end(), 0.0));
  return result;
}

// Calls work(i, thread) for i in [0, count) on `jobs` threads; the first error in order of i.
template <typename Work>
absl::Status OnJobs(size_t count, int jobs, const std::stop_token& stop, const Work& work) {
  std::atomic<size_t> next = 0;
  std::vector<absl::Status> status(count);
  const auto run = [&](size_t thread) {
    for (size_t i = next++; i < count; i = next++) {
      status[i] = stop.stop_requested() ? absl::CancelledError("interrupted") : work(i, thread);
    }
  };
  std::vector<std::jthread> threads;
  for (size_t t = 1; t < static_cast<size_t>(std::max(jobs, 1)); ++t) threads.emplace_back(run, t);
  run(0);
  threads.clear();
  for (absl::Status& s : status) {
    if (!s.ok()) return std::move(s);
  }
  return absl::OkStatus();
}

std::vector<DesignEvaluator> Evaluators(const SearchSetup& setup) {
  return std::vector<DesignEvaluator>(static_cast<size_t>(std::max(setup.jobs, 1)),
                                      DesignEvaluator(setup.machine, setup.training));
}

void Finish(const std::vector<DesignEvaluator>& evaluators, ArchitectResult& result) {
  for (const DesignEvaluator& e : evaluators) result.statistics.Add(e.statistics());
  for (size_t i = 0; i < result.evaluated.size(); ++i) {
    if (result.evaluated[i].score > result.evaluated[result.best].score) result.best = i;
  }
}

// Upper bounds of scores, in order of designs. Designs with like tensor cores follow each other, so
// that what is known of products is used again.
absl::StatusOr<std::vector<double>> Bounds(const std::vector<SearchedModel>& models,
                                           const std::vector<SizedDesign>& designs,
                                           const SearchSetup& setup,
                                           std::vector<DesignEvaluator>& evaluators) {
  std::vector<size_t> order(designs.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto tensor = [&](size_t i) {
    const AcceleratorDesign& d = designs[i].design;
    return std::tuple(d.tensor_cores, d.width, d.depth, d.buffer_MB);
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return tensor(a) < tensor(b); });
  std::vector<size_t> groups = {0};  // where each run of like tensor cores begins
  for (size_t i = 1; i < order.size(); ++i) {
    if (tensor(order[i]) != tensor(order[i - 1])) groups.push_back(i);
  }
  groups.push_back(order.size());
  std::vector<double> bounds(designs.size());
  std::atomic<int64_t> done = 0;
  const double total = TotalWeight(models);
  FORETRACE_RETURN_IF_ERROR(
      OnJobs(groups.size() - 1, setup.jobs, setup.stop, [&](size_t g, size_t thread) {
        for (size_t i = groups[g]; i < groups[g + 1]; ++i) {
          const SizedDesign& design = designs[order[i]];
          evaluators[thread].SetDesign(design.design);
          double sum = 0;
          for (size_t m = 0; m < models.size(); ++m) {
            sum += Relative(setup, m, evaluators[thread].Bound(models[m].model)) *
                   models[m].weight / total;
          }
          bounds[order[i]] = PerObjective(setup, design, sum);
        }
        done += static_cast<int64_t>(groups[g + 1] - groups[g]);
        if (setup.progress && thread == 0) {
          setup.progress(done, static_cast<int64_t>(designs.size()));
        }
        return absl::OkStatus();
      }));
  return bounds;
}

}  // namespace

absl::StatusOr<ArchitectResult> SearchByHysteresis(const std::vector<SearchedModel>& models,
                                                   const std::vector<SizedDesign>& designs,
                                                   const SearchSetup& setup, int hysteresis) {
  ArchitectResult result;
  result.designs = static_cast<int64_t>(designs.size());
  std::vector<DesignEvaluator> evaluators = Evaluators(setup);
  std::vector<double> best;  // score of each bucket
  for (size_t begin = 0; begin < designs.size();) {
    size_t end = begin;
    while (end < designs.size() && designs[end].bucket == designs[begin].bucket) ++end;
    std::vector<EvaluatedDesign> bucket(end - begin);
    FORETRACE_RETURN_IF_ERROR(
        OnJobs(bucket.size(), setup.jobs, setup.stop, [&](size_t i, size_t thread) -> absl::Status {
          FORETRACE_ASSIGN_OR_RETURN(
              bucket[i], EvaluateDesign(evaluators[thread], models, designs[begin + i], setup, 0));
          return absl::OkStatus();
        }));
    double most = 0;
    for (EvaluatedDesign& e : bucket) {
      most = std::max(most, e.score);
      result.evaluated.push_back(std::move(e));
    }
    best.push_back(most);
    begin = end;
    if (setup.progress) {
      setup.progress(static_cast<int64_t>(begin), static_cast<int64_t>(designs.size()));
    }
    if (best.size() >= static_cast<size_t>(hysteresis) &&
        std::is_sorted(best.end() - hysteresis, best.end(), std::greater<>())) {
      break;
    }
  }
  result.buckets = static_cast<int64_t>(best.size());
  Finish(evaluators, result);
  return result;
}

absl::StatusOr<ArchitectResult> SearchExactly(const std::vector<SearchedModel>& models,
                                              const std::vector<SizedDesign>& designs,
                                              const SearchSetup& setup) {
  ArchitectResult result;
  result.designs = static_cast<int64_t>(designs.size());
  std::vector<DesignEvaluator> evaluators = Evaluators(setup);
  FORETRACE_ASSIGN_OR_RETURN(const std::vector<double> bounds,
                             Bounds(models, designs, setup, evaluators));
  std::vector<size_t> order(designs.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return bounds[a] > bounds[b]; });
  // A few at a time, of a number that does not depend on the threads.
  constexpr size_t kBatch = 8;
  double best = 0;
  size_t next = 0;
  while (next < order.size() && bounds[order[next]] > best) {
    const size_t count = std::min(kBatch, order.size() - next);
    std::vector<EvaluatedDesign> batch(count);
    FORETRACE_RETURN_IF_ERROR(
        OnJobs(count, setup.jobs, setup.stop, [&](size_t i, size_t thread) -> absl::Status {
          FORETRACE_ASSIGN_OR_RETURN(
              batch[i],
              EvaluateDesign(evaluators[thread], models, designs[order[next + i]], setup, best));
          return absl::OkStatus();
        }));
    for (EvaluatedDesign& e : batch) {
      best = std::max(best, e.score);
      result.evaluated.push_back(std::move(e));
    }
    next += count;
  }
  result.bounded = result.designs - static_cast<int64_t>(next);
  Finish(evaluators, result);
  return result;
}

}  // namespace foretrace
