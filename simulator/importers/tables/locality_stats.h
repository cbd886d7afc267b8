#pragma once
// The locality statistics that come with Meta's dlrm_datasets (embedding_bag/*/locality_stats.txt).

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace foretrace {

inline constexpr size_t kLocalityBins = 17;

struct LocalityStats {
  std::string file;    // the data file described
  double lookups = 0;  // indices in the batch, all tables together
  double unique_rows = 0;
  // Share of accessed rows by access count, in upstream's bins, which are closed on the right:
  // (0, 1], (1, 2], (2, 4], ..., (16384, 32768], above.
  std::array<double, kLocalityBins> by_count = {};
};

// One entry per data file described. Errors: no entry, bins missing or out of order, numbers that
// are not numbers; each with its line.
absl::StatusOr<std::vector<LocalityStats>> ParseLocalityStats(std::string_view path,
                                                              std::string_view text);

}  // namespace foretrace
