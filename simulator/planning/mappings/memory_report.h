#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/planning/mappings/mapped_job.h"
#include "simulator/report/text_table.h"

namespace foretrace {

absl::StatusOr<std::vector<StagePeak>> StagePeaks(const TrainingJob& job,
                                                  const ParallelMapping& mapping);

// Memory of every stage of a mapping at its peak: when, in which pass, and what takes it.
absl::StatusOr<std::string> MemoryReport(const TrainingJob& job, const MappingFile& mapping,
                                         const TextStyle& style);

}  // namespace foretrace
