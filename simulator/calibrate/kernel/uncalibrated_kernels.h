#pragma once
// Kernels of benchmark tables as the files of their devices alone say them: what a prediction
// without a calibration is off by.

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "simulator/calibrate/fitter.h"

namespace foretrace {

class UncalibratedKernels : public FittedModels {
 public:
  // Nothing was fitted that a file could hold.
  std::string ToYaml() const override { return ""; }
  absl::Status Writable() const override;
  // Kernels alone: what a source adds to them by its own launches, no device's file says.
  std::vector<EvaluatedRow> Evaluate(std::span<const BenchmarkRow> rows) const override;
  std::vector<std::string> NotesOn(const std::string& platform) const override;
};

}  // namespace foretrace
