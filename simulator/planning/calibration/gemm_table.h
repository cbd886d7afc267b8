#pragma once
// GEMMs of a table in aiconfigurator's columns by the model that `calibrate kernel` fits, weight
// matrices (n, k) held out whole by the rule of its `--hold-out unseen-nk`.

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/base/progress.h"
#include "simulator/serve/operator_table.h"

namespace foretrace {

// The label of the device that the name of a table ends with ("gemm-a100.csv.xz": a100); empty
// where no accelerator has that name.
std::string DeviceOfTable(const std::string& file);

// Of each precision. Empty where the table is not one of GEMMs, or a precision has no model
// (another type, or fewer weight matrices than shapes are interpolated over): these are predicted
// along lines (HoldOutOperators). Errors: fields that are no sizes, an unknown device.
absl::StatusOr<std::vector<serve::OperatorErrors>> HoldOutGemms(const std::string& device,
                                                                const std::string& file,
                                                                std::string_view text,
                                                                const ProgressSink& progress);

}  // namespace foretrace
