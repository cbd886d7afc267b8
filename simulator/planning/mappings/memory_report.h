#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "simulator/planning/mappings/mapped_job.h"
#include "simulator/report/text_table.h"

namespace foretrace {

// Memory of every stage of a mapping at its peak: when, in which pass, and what takes it.
absl::StatusOr<std::string> MemoryReport(const TrainingJob& job, const MappingFile& mapping,
                                         const TextStyle& style);

}  // namespace foretrace
