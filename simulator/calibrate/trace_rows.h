#pragma once
// Rows of measurements that come from traces: their source reads "trace rank=0 step=3 call=17".

#include <string_view>

#include "absl/status/statusor.h"
#include "simulator/calibrate/csv_table.h"

namespace foretrace {

inline constexpr std::string_view kOddRanks = "odd-ranks", kOddSteps = "odd-steps";

// Whether the rule, kOddRanks or kOddSteps, keeps the row back. Errors: its source does not name
// what the rule asks for.
absl::StatusOr<bool> IsOddOfTrace(const BenchmarkRow& row, std::string_view rule);

}  // namespace foretrace
