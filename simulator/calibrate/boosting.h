#pragma once
// Trains gradient-boosted trees (XGBoost). Calibration only: prediction walks the exported trees.

#include <cstdint>
#include <span>

#include "absl/status/statusor.h"
#include "simulator/base/progress.h"
#include "simulator/cost/kernel/tree_ensemble.h"

namespace foretrace {

struct BoostingOptions {
  int trees = 40;
  int depth = 5;
  double learning_rate = 0.2;
  double min_child_weight = 6;  // sum of row weights in a leaf
  double l2 = 2;
  double features_per_node = 1;  // share of the features that a split may choose from
  double rows_per_tree = 1;      // share of the rows that a tree is grown on
  // Errors count quadratically up to about this, linearly beyond (pseudo-Huber). 0: quadratically.
  double huber = 0;
  uint64_t seed = 0;           // of the rows and features drawn
  ProgressSink progress = {};  // told before each tree
};

// `features` is row-major, `feature_count` values a row. Single-threaded and deterministic. Errors:
// sizes that do not agree, no rows, what XGBoost says, or that its module (xgboost_module.h) cannot
// be loaded.
absl::StatusOr<TreeEnsemble> TrainBoostedTrees(std::span<const float> features, int feature_count,
                                               std::span<const float> targets,
                                               std::span<const float> weights,
                                               const BoostingOptions& options);

}  // namespace foretrace
