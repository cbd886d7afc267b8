#pragma once
// Published iterations (importers/tables/measured_iterations.h) as mappings.

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/mapping/measured_mappings.h"

namespace foretrace {

// What such tables do not say is given: the vocabulary, and how rows without a word of it
// recompute. Errors: as of the table; rows whose degrees do not divide.
absl::StatusOr<std::vector<MeasuredMapping>> LoadMeasuredMappings(const std::string& path,
                                                                  int64_t vocabulary,
                                                                  Recompute recompute);

}  // namespace foretrace
