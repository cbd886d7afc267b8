#pragma once
// Tables of single operators in aiconfigurator's columns, as `calibrate serving` and `calibrate
// kernel` predict their rows from others.

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "simulator/console/command.h"

namespace foretrace {

struct OperatorCalibration {
  std::string command;  // in JSON
  std::string table;
  std::string test;      // rows to predict from the table's; empty: the table's own
  std::string few;       // few rows of the tests' device, which correct these; may be empty
  std::string platform;  // the device of `table`; empty: the one that it states (gemm_table.h)
  int32_t folds = 0;     // of GEMMs (docs/serving.md)
  bool json = false;
};

// The text of a table of operators; nullopt where the file is none or cannot be read.
std::optional<std::string> OperatorTableText(const std::string& path);

// Prints the errors by precision.
absl::Status RunOperatorCalibration(const OperatorCalibration& options, std::string text,
                                    const CommandContext& context);

}  // namespace foretrace
