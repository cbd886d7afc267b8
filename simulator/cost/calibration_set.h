#pragma once
// All that was calibrated for one platform: a folder of calibration files.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/cost/calibration_file.h"
#include "simulator/cost/collective/collective_calibration.h"
#include "simulator/cost/embedding/embedding_model.h"
#include "simulator/cost/kernel/kernel_model.h"
#include "simulator/cost/memcpy/copy_models.h"
#include "simulator/cost/power/power_model.h"

namespace foretrace {

struct CalibrationSet {
  std::string folder;
  std::string platform;  // as the files name it
  // What each file's measurements ran on: {"kernels", {"torch 2.1.0"}}; files that do not say are
  // left out.
  std::vector<std::pair<std::string, std::vector<std::string>>> stacks;
  // Null where the folder has no such file.
  std::shared_ptr<const KernelModels> kernels;
  std::shared_ptr<const CollectiveCalibration> collectives;
  std::shared_ptr<const CopyModels> copies;
  std::shared_ptr<const EmbeddingModels> embedding;
  std::shared_ptr<const PowerModel> power;
};

// Reads kernels.yaml, collectives.yaml, memory.yaml, embedding.yaml and power.yaml of the folder,
// as far as they are there. Errors: none is; a file that cannot be read or is not what its name
// says; files of different platforms.
absl::StatusOr<CalibrationSet> LoadCalibrationSet(const std::string& folder);

// "calibration v100-pcie: kernels measured with torch 2.1.0"; empty where no file says.
std::string StackNote(const CalibrationSet& set);

}  // namespace foretrace
