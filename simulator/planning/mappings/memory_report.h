#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/planning/mappings/mapped_job.h"
#include "simulator/report/text_table.h"

namespace foretrace {

absl::StatusOr<std::vector<StagePeak>> StagePeaks(const TrainingJob& job,
                                                  const ParallelMapping& mapping);

// Memory of every stage of a row's mapping at its peak: when, in which pass, and what takes it. Of
// a mapping in words the row has its stages.
absl::StatusOr<std::string> MemoryReport(const TrainingJob& job, const SearchRow& row,
                                         const TextStyle& style);

}  // namespace foretrace
