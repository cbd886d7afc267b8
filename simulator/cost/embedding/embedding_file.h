#pragma once
// A platform's lookup models as files: embedding.yaml, and embedding.pb beside it for the
// residuals.

#include <string>

#include "absl/status/statusor.h"
#include "simulator/cost/calibration_file.h"
#include "simulator/cost/embedding/embedding_model.h"

namespace foretrace {

inline constexpr std::string_view kEmbeddingResidualFile = "embedding.pb";

// The YAML from `models:` on, shortest doubles that read back to the same bits. `device` is the one
// that was measured; efficiencies are relative to its peaks.
std::string EmbeddingModelsYaml(const EmbeddingModels& models, const GpuPeaks& device);
// Empty without residuals; the same models give the same bytes.
std::string EmbeddingResidualBytes(const EmbeddingModels& models, const GpuPeaks& device);

struct LoadedEmbedding {
  CalibrationHeader header;
  EmbeddingModels models;
  GpuPeaks device;  // that was measured
};
// Reads `path` and the residual file in its folder. Errors name the file, what is wrong and the
// remedy: another version or kind, unknown devices or models, values out of range, residuals of
// another calibration.
absl::StatusOr<LoadedEmbedding> LoadEmbeddingModels(const std::string& path);

}  // namespace foretrace
