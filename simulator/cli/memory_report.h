#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "simulator/cli/training_job.h"
#include "simulator/report/text_table.h"

namespace foretrace {

// Memory of every stage of a parallel mapping at its peak: when, in which pass, and what takes it;
// and which knob would make a mapping fit that does not.
absl::StatusOr<std::string> MemoryReport(const TrainingJob& job, const ParallelMapping& mapping,
                                         const TextStyle& style);

}  // namespace foretrace
