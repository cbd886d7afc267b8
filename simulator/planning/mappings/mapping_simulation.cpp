#include "simulator/planning/mappings/mapping_simulation.h"

#include <fmt/format.h>

#include <algorithm>

#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/console/output.h"
#include "simulator/engine/replay.h"
#include "simulator/planning/mappings/mapped_job.h"
#include "simulator/replay/simulation_setup.h"

namespace foretrace {

absl::StatusOr<SimTime> SimulateMapping(const TrainingJob& job, const MappingFile& mapping,
                                        const std::string& platform, const std::string& tier) {
  LoweringOptions sizes;
  sizes.communication_durations = false;
  FORETRACE_ASSIGN_OR_RETURN(const GeneratedJob generated, GenerateJob(job, mapping, sizes));
  SimulationOptions options;
  options.platform = platform;
  options.network = tier;
  FORETRACE_ASSIGN_OR_RETURN(const SimulationSetup setup,
                             SimulationSetup::Make(options, generated.store));
  FORETRACE_ASSIGN_OR_RETURN(const Prediction prediction,
                             Predict(generated.store, setup.compile(), setup.network()));
  return prediction.schedule.makespan;
}

absl::Status SimulateRows(const TrainingJob& job, const std::string& platform,
                          const std::string& tier, size_t top, const CommandContext& context,
                          SearchReport& report) {
  report.network = tier;
  const size_t count = std::min(top, report.rows.size());
  size_t simulated = 0, failed = 0;
  absl::Status first_failure;
  for (size_t i = 0; i < count; ++i) {
    if (context.stop.stop_requested()) {
      report.interrupted = true;
      break;
    }
    context.console->Progress("simulations", static_cast<int64_t>(i), static_cast<int64_t>(count));
    SearchRow& row = report.rows[i];
    const absl::StatusOr<SimTime> time = SimulateMapping(job, row.mapping, platform, tier);
    if (time.ok()) {
      row.simulated = *time;
      ++simulated;
    } else {
      if (failed++ == 0) first_failure = time.status();
    }
  }
  if (simulated == 0 && failed > 0) return first_failure;
  if (failed > 0) {
    report.notes.push_back(
        fmt::format("--network {}: {} of {} mappings are not simulated, the "
                    "first because: {}",
                    tier, failed, count, std::string(first_failure.message())));
  }
  return absl::OkStatus();
}

void OrderBySimulation(SearchReport& report) {
  std::stable_sort(report.rows.begin(), report.rows.end(),
                   [](const SearchRow& a, const SearchRow& b) {
                     const bool both = a.simulated > SimTime() && b.simulated > SimTime();
                     return both ? a.simulated < b.simulated : a.simulated > b.simulated;
                   });
}

}  // namespace foretrace
