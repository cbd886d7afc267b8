#pragma once
// The published statistics of Meta's dlrm_datasets, as tables are drawn from them.

#include <string>

#include "absl/status/statusor.h"
#include "simulator/sharding/generate.h"

namespace foretrace {

// The first entry of a locality_stats.txt. Tables and batch are in the name of the data file
// (fbgemm_t856_bs65536.pt); the share of heavy tables is the paper's for 856 tables (2021: 103) and
// 788 (2022: 166). Errors: other data files.
absl::StatusOr<TableStatistics> LoadTableStatistics(const std::string& file);

}  // namespace foretrace
