#include "simulator/calibrate/xgboost_module.h"

#include <xgboost/c_api.h>

#include <limits>
#include <type_traits>

namespace foretrace {
namespace {

// The library's handles, freed in any case.
struct Handles {
  DMatrixHandle matrix = nullptr;
  BoosterHandle booster = nullptr;
  Handles() = default;
  Handles(const Handles&) = delete;
  Handles& operator=(const Handles&) = delete;
  ~Handles() {
    if (booster != nullptr) XGBoosterFree(booster);
    if (matrix != nullptr) XGDMatrixFree(matrix);
  }
};

// False where the library reports an error.
bool Train(const XgboostTask& task, Handles& handles) {
  const bst_ulong rows = task.targets.size();
  if (XGDMatrixCreateFromMat(task.features.data(), rows, task.feature_count,
                             std::numeric_limits<float>::quiet_NaN(), &handles.matrix) != 0 ||
      XGDMatrixSetFloatInfo(handles.matrix, "label", task.targets.data(), rows) != 0 ||
      XGDMatrixSetFloatInfo(handles.matrix, "weight", task.weights.data(), rows) != 0 ||
      XGBoosterCreate(&handles.matrix, 1, &handles.booster) != 0) {
    return false;
  }
  for (const auto& [name, value] : task.parameters) {
    if (XGBoosterSetParam(handles.booster, name, value.c_str()) != 0) return false;
  }
  for (int i = 0; i < task.rounds; ++i) {
    Tell(task.progress, "trees", static_cast<size_t>(i), static_cast<size_t>(task.rounds));
    if (XGBoosterUpdateOneIter(handles.booster, i, handles.matrix) != 0) return false;
  }
  return true;
}

}  // namespace

extern "C" [[gnu::visibility("default")]] void foretrace_train_with_xgboost(const XgboostTask& task,
                                                                            XgboostResult& result) {
  Handles handles;
  bst_ulong length = 0;
  const char* text = nullptr;
  if (!Train(task, handles) ||
      XGBoosterSaveModelToBuffer(handles.booster, R"({"format":"json"})", &length, &text) != 0) {
    result.error = XGBGetLastError();
    return;
  }
  result.json.assign(text, length);
}
static_assert(std::is_same_v<decltype(foretrace_train_with_xgboost), TrainWithXgboost>);

}  // namespace foretrace
