#pragma once
// GEMMs of a table in aiconfigurator's columns by the model that `calibrate kernel` fits, weight
// matrices (n, k) held out whole by the rule of its `--hold-out unseen-nk`, or each once.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/base/progress.h"
#include "simulator/serve/operator_table.h"

namespace foretrace {

// The label of a table's device: of a line "# device: H100" before its header, else from where its
// name begins to be one ("gemm-a100.csv.xz": a100, "aiconfigurator-h200-sxm5-nvswitch-moe.csv":
// h200-sxm5-nvswitch-moe); empty where there is none.
std::string DeviceOfTable(const std::string& file, std::string_view text);
// Of such a line alone, and of a known device; else empty.
std::string StatedDevice(std::string_view text);

// Of each precision. Empty where the table is not one of GEMMs, or a precision has no model
// (another type, or fewer weight matrices than shapes are interpolated over): these are predicted
// along lines (HoldOutOperators). `folds`: parts of which each is predicted from the others; 0: a
// fifth, once. Errors: fields that are no sizes, an unknown device.
absl::StatusOr<std::vector<serve::OperatorErrors>> HoldOutGemms(const std::string& device,
                                                                const std::string& file,
                                                                std::string_view text,
                                                                int32_t folds,
                                                                const ProgressSink& progress);

// Of each precision of another table's rows, predicted from all of this one's; where they are of
// another device (test_device not empty), as the machine files say, corrected by `few`, a few rows
// of that device (may be empty). Empty as above, and where this table lacks one of these precisions
// or `few` has a type without a model. Errors: as above.
absl::StatusOr<std::vector<serve::OperatorErrors>> TestGemms(
    const std::string& device, const std::string& file, std::string_view text,
    const std::string& test_device, const std::string& test_file, std::string_view test_text,
    const serve::OperatorFile& few, const ProgressSink& progress);

}  // namespace foretrace
