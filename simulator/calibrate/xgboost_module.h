#pragma once
// What the XGBoost module offers; loaded by fits that train residuals alone (base/module.h).

#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "simulator/base/progress.h"

namespace foretrace {

struct XgboostTask {
  std::span<const float> features;  // row-major
  std::span<const float> targets, weights;
  size_t feature_count = 0;
  int rounds = 0;
  std::vector<std::pair<const char*, std::string>> parameters;  // in XGBoost's words
  ProgressSink progress;                                        // told before each tree
};

struct XgboostResult {
  std::string json;   // the model as XGBoost saves it
  std::string error;  // empty: none
};

// The module's one function.
using TrainWithXgboost = void(const XgboostTask& task, XgboostResult& result);
inline constexpr char kTrainWithXgboost[] = "foretrace_train_with_xgboost";

}  // namespace foretrace
