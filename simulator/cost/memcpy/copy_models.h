#pragma once
// The measured copies of one platform, by direction and host memory: what memory.yaml holds.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/base/estimate.h"
#include "simulator/base/units.h"
#include "simulator/cost/calibration_file.h"
#include "simulator/cost/collective/collective_curve.h"

namespace foretrace {

// Time of a copy by its size: the same curve as a collective's, with bus factor 1.
struct CopyModel {
  std::string direction;  // htod, dtoh, dtod, htoh
  bool pinned = false;    // of the host side
  int64_t min_bytes = 0;  // measured range
  int64_t max_bytes = 0;
  int64_t points = 0;
  CollectiveCurve curve;

  std::string Name() const;
  bool InRange(int64_t bytes) const { return bytes >= min_bytes && bytes <= max_bytes; }
};

// Immutable and thread-safe.
class CopyModels {
 public:
  explicit CopyModels(std::vector<CopyModel> models) : models_(std::move(models)) {}
  // Null where the direction was not measured.
  const CopyModel* Find(std::string_view direction, bool pinned) const;
  // nullopt where the direction was not measured.
  std::optional<Estimate> CopyTime(std::string_view direction, bool pinned, Bytes bytes) const;
  const std::vector<CopyModel>& models() const { return models_; }

 private:
  std::vector<CopyModel> models_;
};

// The YAML from `models:` on; shortest doubles that read back to the same bits.
std::string CopyModelsYaml(const CopyModels& copies);

struct LoadedCopies {
  CalibrationHeader header;
  CopyModels models;
};
// Errors name the file, the line and what is wrong.
absl::StatusOr<LoadedCopies> LoadCopyModels(const std::string& path);

}  // namespace foretrace
