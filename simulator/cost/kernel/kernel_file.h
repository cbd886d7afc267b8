#pragma once
// A platform's kernel models as files: kernels.yaml, and kernels.pb beside it for the residuals.

#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "simulator/cost/calibration_file.h"
#include "simulator/cost/kernel/kernel_model.h"

namespace foretrace {

inline constexpr std::string_view kKernelResidualFile = "kernels.pb";

// The YAML from `models:` on; shortest doubles that read back to the same bits.
std::string KernelModelsYaml(const KernelModels& models);
// The protobuf of the residuals; the same models give the same bytes.
std::string KernelResidualBytes(const KernelModels& models);

struct LoadedKernels {
  CalibrationHeader header;
  KernelModels models;
};
// Reads `path` and the residual file in its folder. Errors name the file, what is wrong and the
// remedy: another version or kind, unknown devices or models, missing keys, values out of range,
// residuals that belong to another calibration.
absl::StatusOr<LoadedKernels> LoadKernelModels(const std::string& path);

}  // namespace foretrace
