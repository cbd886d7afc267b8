#pragma once
// The search for accelerators (Wang et al., ICML 2024, section 3 and algorithm 1), and an exact
// one.

#include <functional>

#include "simulator/architect/evaluate.h"
#include "simulator/architect/work_runner.h"

namespace foretrace {

// What the best design has most of: throughput, by itself or for what it costs (SizedDesign).
enum class Objective : uint8_t { kThroughput, kPerArea, kPerWatt, kPerDollar, kCount };
std::string_view Name(Objective objective);

struct SearchedModel {
  ArchitectModel model;
  double weight = 1;
};

// One design with the best plan of each model; no plans and no score where a bound showed that it
// cannot be the best.
struct EvaluatedDesign {
  SizedDesign design;
  std::vector<ModelPlan> plans;
  double score = 0;  // common: weighted mean of throughputs relative to `reference`
};

// What a search found, in the order in which designs were evaluated.
struct ArchitectResult {
  std::vector<EvaluatedDesign> evaluated;
  size_t best = 0;
  int64_t designs = 0;  // of the space
  int64_t bounded = 0;  // of these, those that a bound left out
  int64_t buckets = 0;  // explored
  ScheduleStatistics statistics;
  SearchSeconds seconds;  // of this process
};

struct SearchSetup {
  MachineBase machine;
  TrainingSetup training;
  Objective objective = Objective::kThroughput;
  // Throughput of each model that counts as 1, so that models of any size weigh alike.
  std::vector<double> reference;
  const WorkRunner* runner = nullptr;  // never null
  // Tells searches of one journal apart: models and what they are searched for.
  std::string name;
  // `what` is counted; may be empty.
  std::function<void(std::string_view what, int64_t done, int64_t total)> progress;
};

// Buckets of area from the largest down, until the best scores of the last `hysteresis` explored
// ones only fell. Within a bucket as SearchExactly. Errors: a model fits on no design (infeasible);
// cancelled.
absl::StatusOr<ArchitectResult> SearchByHysteresis(const std::vector<SearchedModel>& models,
                                                   const std::vector<SizedDesign>& designs,
                                                   const SearchSetup& setup, int hysteresis);

// Every design: the bound of each first, then evaluations from the highest bound down, until the
// next bound is below the best score. The same design as if all had been evaluated; the same bits
// for any runner.
absl::StatusOr<ArchitectResult> SearchExactly(const std::vector<SearchedModel>& models,
                                              const std::vector<SizedDesign>& designs,
                                              const SearchSetup& setup);

}  // namespace foretrace
