#include "simulator/architect/search.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <span>
#include <tuple>

#include <fmt/format.h>

#include "simulator/architect/design_record.h"
#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"

namespace foretrace {
namespace {

double Relative(const SearchSetup& setup, size_t model, double throughput) {
  return model < setup.reference.size() ? throughput / setup.reference[model] : throughput;
}
// What a score is divided by.
double Divisor(const SearchSetup& setup, const SizedDesign& design) {
  switch (setup.objective) {
    case Objective::kPerArea:
      return design.area.mm2();
    case Objective::kPerWatt:
      return design.watts;
    case Objective::kPerDollar:
      return design.dollars;
    default:
      return 1;
  }
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
  const double target = floor * Divisor(setup, design);
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
  result.score = std::accumulate(share.begin(), share.end(), 0.0) / Divisor(setup, design);
  return result;
}

std::vector<DesignEvaluator> Evaluators(const SearchSetup& setup) {
  return std::vector<DesignEvaluator>(setup.runner->threads(),
                                      DesignEvaluator(setup.machine, setup.training));
}

// Evaluates the designs `which` of all, each as long as its score can be above `floor`, and adds
// them to the result.
absl::Status EvaluateDesigns(const std::vector<SearchedModel>& models,
                             const std::vector<SizedDesign>& designs, std::span<const size_t> which,
                             const SearchSetup& setup, double floor,
                             std::vector<DesignEvaluator>& evaluators, ArchitectResult& result) {
  std::vector<std::string> keys;
  for (const size_t i : which) {
    keys.push_back(
        fmt::format("{}: {} above {:a}", setup.name, Describe(designs[i].design), floor));
  }
  FORETRACE_ASSIGN_OR_RETURN(
      const std::vector<std::string> lines,
      setup.runner->Run(keys, [&](size_t i, size_t thread) -> absl::StatusOr<std::string> {
        DesignEvaluator& evaluator = evaluators[thread];
        evaluator.ResetCounts();
        FORETRACE_ASSIGN_OR_RETURN(
            EvaluatedDesign evaluated,
            EvaluateDesign(evaluator, models, designs[which[i]], setup, floor));
        return Encode({std::move(evaluated.plans), evaluated.score, evaluator.statistics()});
      }));
  for (size_t i = 0; i < which.size(); ++i) {
    std::optional<DesignRecord> record = DecodeRecord(lines[i]);
    if (!record.has_value()) {
      return InvalidInput(
          "'{}': what is known of it cannot be read; remove the line of the journal", keys[i]);
    }
    result.statistics.Add(record->statistics);
    result.evaluated.push_back({designs[which[i]], std::move(record->plans), record->score});
  }
  return absl::OkStatus();
}

void Finish(const std::vector<DesignEvaluator>& evaluators, ArchitectResult& result) {
  for (const DesignEvaluator& e : evaluators) result.seconds.Add(e.seconds());
  for (size_t i = 0; i < result.evaluated.size(); ++i) {
    if (result.evaluated[i].score > result.evaluated[result.best].score) result.best = i;
  }
}

// Designs in order of their tensor cores, and where each run of like ones begins; at the end, where
// the last one ends.
struct OrderedDesigns {
  std::vector<size_t> order, groups;
};

OrderedDesigns ByTensorCores(const std::vector<SizedDesign>& designs) {
  std::vector<size_t> order(designs.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto tensor = [&](size_t i) {
    const AcceleratorDesign& d = designs[i].design;
    return std::tuple(d.tensor_cores, d.width, d.depth, d.buffer_MB);
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return tensor(a) < tensor(b); });
  std::vector<size_t> groups = {0};
  for (size_t i = 1; i < order.size(); ++i) {
    if (tensor(order[i]) != tensor(order[i - 1])) groups.push_back(i);
  }
  groups.push_back(order.size());
  return {std::move(order), std::move(groups)};
}

// Upper bounds of scores, in order of designs. Designs with like tensor cores follow each other, so
// that what is known of GEMMs is used again.
absl::StatusOr<std::vector<double>> Bounds(const std::vector<SearchedModel>& models,
                                           const std::vector<SizedDesign>& designs,
                                           const SearchSetup& setup,
                                           std::vector<DesignEvaluator>& evaluators) {
  const auto [order, groups] = ByTensorCores(designs);
  const double total = TotalWeight(models);
  std::vector<std::string> keys;
  for (size_t g = 0; g + 1 < groups.size(); ++g) {
    keys.push_back(fmt::format("{}: bounds of {} designs from {}", setup.name,
                               groups[g + 1] - groups[g],
                               Describe(designs[order[groups[g]]].design)));
  }
  std::vector<double> bounds(designs.size());
  // Some groups at a time, so that progress is told and a journal is written between them.
  constexpr size_t kAtOnce = 64;
  for (size_t begin = 0; begin < keys.size(); begin += kAtOnce) {
    const size_t count = std::min(kAtOnce, keys.size() - begin);
    FORETRACE_ASSIGN_OR_RETURN(
        const std::vector<std::string> lines,
        setup.runner->Run(std::span(keys).subspan(begin, count),
                          [&](size_t g, size_t thread) -> absl::StatusOr<std::string> {
                            std::vector<double> of_group;
                            for (size_t i = groups[begin + g]; i < groups[begin + g + 1]; ++i) {
                              const SizedDesign& design = designs[order[i]];
                              evaluators[thread].SetDesign(design.design);
                              double sum = 0;
                              for (size_t m = 0; m < models.size(); ++m) {
                                sum +=
                                    Relative(setup, m, evaluators[thread].Bound(models[m].model)) *
                                    models[m].weight / total;
                              }
                              of_group.push_back(sum / Divisor(setup, design));
                            }
                            return EncodeNumbers(of_group);
                          }));
    for (size_t g = 0; g < count; ++g) {
      const std::optional<std::vector<double>> of_group = DecodeNumbers(lines[g]);
      const size_t first = groups[begin + g], end = groups[begin + g + 1];
      if (!of_group.has_value() || of_group->size() != end - first) {
        return InvalidInput(
            "'{}': what is known of it cannot be read; remove the line of the journal",
            keys[begin + g]);
      }
      for (size_t i = first; i < end; ++i) bounds[order[i]] = (*of_group)[i - first];
    }
    if (setup.progress) {
      setup.progress("bounds of designs", static_cast<int64_t>(groups[begin + count]),
                     static_cast<int64_t>(designs.size()));
    }
  }
  return bounds;
}

// The best score of designs: bounds of all, then evaluations from the highest bound down, until the
// next is below it.
absl::StatusOr<double> EvaluateByBounds(const std::vector<SearchedModel>& models,
                                        const std::vector<SizedDesign>& designs,
                                        const SearchSetup& setup,
                                        std::vector<DesignEvaluator>& evaluators,
                                        ArchitectResult& result) {
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
    FORETRACE_RETURN_IF_ERROR(EvaluateDesigns(
        models, designs, std::span(order).subspan(next, count), setup, best, evaluators, result));
    for (size_t i = 0; i < count; ++i) {
      best = std::max(best, result.evaluated[result.evaluated.size() - 1 - i].score);
    }
    next += count;
    if (setup.progress) {
      // Those whose bounds the best found does not rule out; it may rule out more.
      const auto above = std::partition_point(order.begin(), order.end(),
                                              [&](size_t d) { return bounds[d] > best; });
      setup.progress("designs that bounds leave", static_cast<int64_t>(next),
                     std::max(static_cast<int64_t>(next), above - order.begin()));
    }
  }
  result.bounded += static_cast<int64_t>(designs.size() - next);
  return best;
}

}  // namespace

std::string_view Name(Objective objective) {
  constexpr std::array<std::string_view, 4> kNames = {"throughput", "per-area", "per-watt",
                                                      "per-dollar"};
  return kNames[static_cast<size_t>(objective)];
}

absl::StatusOr<ArchitectResult> SearchByHysteresis(const std::vector<SearchedModel>& models,
                                                   const std::vector<SizedDesign>& designs,
                                                   const SearchSetup& setup, int hysteresis) {
  ArchitectResult result;
  result.designs = static_cast<int64_t>(designs.size());
  std::vector<DesignEvaluator> evaluators = Evaluators(setup);
  SearchSetup of_bucket = setup;
  of_bucket.progress = nullptr;
  std::vector<double> best;  // score of each bucket
  for (auto begin = designs.begin(); begin != designs.end();) {
    const auto end = std::find_if(begin, designs.end(),
                                  [&](const SizedDesign& d) { return d.bucket != begin->bucket; });
    FORETRACE_ASSIGN_OR_RETURN(
        best.emplace_back(), EvaluateByBounds(models, {begin, end}, of_bucket, evaluators, result));
    begin = end;
    if (setup.progress) {
      setup.progress("designs", begin - designs.begin(), static_cast<int64_t>(designs.size()));
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
  FORETRACE_RETURN_IF_ERROR(EvaluateByBounds(models, designs, setup, evaluators, result).status());
  Finish(evaluators, result);
  return result;
}

}  // namespace foretrace
