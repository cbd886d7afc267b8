#pragma once
// The multi-GPU paper's case study (section VI-A, table IV): does its own model choose the sharder
// whose plan is fastest? Here "actual" is the full engine with the calibrated models, since no
// machine is at hand.

#include <string>
#include <vector>

#include "simulator/sharding/ranking.h"

namespace foretrace {

struct StudyRow {
  std::string task;
  std::string platform;
  bool heavy = false;             // all tables are
  std::string predicted_fastest;  // by the paper's model
  SimTime predicted;              // its time by that model
  SimTime actual_of_predicted;    // by the full engine
  std::string actual_fastest;
  SimTime actual;
  SimTime searched;  // the plan found by searching on simulated time; zero: not asked
  double error() const { return actual_of_predicted.us() / actual.us() - 1; }
  // The paper's criterion: the fastest, or less than 10 % slower.
  bool meets() const { return predicted_fastest == actual_fastest || error() < 0.1; }
  // How much faster than the best of the paper's sharders.
  double gain() const { return 1 - searched.us() / actual.us(); }
};

// `models` as for SimulatedEvaluator; the paper's model takes its collectives in the three-region
// form and runs Algorithm 1. `search_budget` 0: without the search.
absl::StatusOr<StudyRow> StudyTask(const ShardingTask& task, const ShardingModels& models,
                                   uint64_t seed, int64_t search_budget);

}  // namespace foretrace
