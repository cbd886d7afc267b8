#pragma once
// Mappings on the event engine with communication from a network model, beside the closed forms
// that rank them: transfers share links and wait for each other as they do in `predict`.

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "simulator/console/command.h"
#include "simulator/planning/mappings/search_report.h"
#include "simulator/planning/mappings/training_job.h"

namespace foretrace {

// The iteration of the mapping's traces, sizes alone, on a tier of network/ (fitted, fluid,
// simgrid): the answer of `generate --sizes-only` and `predict --network TIER`. Errors: as of
// GenerateJob; of the tier.
absl::StatusOr<SimTime> SimulateMapping(const TrainingJob& job, const MappingFile& mapping,
                                        const std::string& platform, const std::string& tier);

// Simulates the first `top` rows of the report. Those that cannot be are noted. Errors: none can
// be.
absl::Status SimulateRows(const TrainingJob& job, const std::string& platform,
                          const std::string& tier, size_t top, const CommandContext& context,
                          SearchReport& report);
// Simulated rows first, in the order of what they took; the others as they were.
void OrderBySimulation(SearchReport& report);

}  // namespace foretrace
