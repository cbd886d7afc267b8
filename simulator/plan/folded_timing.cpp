#include "simulator/plan/folded_timing.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "simulator/base/status_macros.h"

namespace foretrace {
namespace {

// Dependencies between neighbours reach at most two periods back and one ahead (interleaved
// schedules count a neighbour's warm-up differently); this many equal differences are asked for.
constexpr int64_t kWindow = 6;

// The common difference of the last kWindow whole periods that all stages share.
std::optional<SimTime> PeriodOf(const PipelineTiming& timing, const SchedulePeriod& period,
                                int64_t microbatches) {
  const auto stages = timing.pass_start.size();
  int64_t whole = INT64_MAX;
  for (size_t s = 0; s < stages; ++s) {
    const int64_t steady =
        microbatches * period.passes / period.microbatches - 2 * period.warmup[s];
    whole = std::min(whole, steady / period.passes);
  }
  if (whole < kWindow + 1) return std::nullopt;
  std::optional<SimTime> difference;
  for (size_t s = 0; s < stages; ++s) {
    const std::vector<SimTime>& start = timing.pass_start[s];
    const int64_t from = period.warmup[s] + (whole - kWindow) * period.passes;
    for (int64_t i = from; i < from + kWindow * period.passes; ++i) {
      const SimTime d =
          start[static_cast<size_t>(i)] - start[static_cast<size_t>(i - period.passes)];
      if (!difference) difference = d;
      if (d != *difference) return std::nullopt;
    }
  }
  return difference;
}

}  // namespace

absl::StatusOr<FoldedTiming> TimeFolded(const PipelineOfCount& make, const SchedulePeriod& period,
                                        int32_t microbatches) {
  FoldedTiming out;
  if (period.periodic) {
    const int64_t most_warm = *std::max_element(period.warmup.begin(), period.warmup.end());
    const int64_t warm = most_warm * 2 * period.microbatches / period.passes + 1;
    const auto stages = static_cast<int64_t>(period.warmup.size());
    for (int64_t periods = kWindow + 2 + stages / 4;; periods *= 2) {
      // As many fewer as whole periods allow.
      const int64_t least = warm + periods * period.microbatches;
      if (least >= microbatches) break;
      const int64_t left_out = (microbatches - least) / period.microbatches;
      if (left_out == 0) break;
      out.simulated = static_cast<int32_t>(microbatches - left_out * period.microbatches);
      FORETRACE_ASSIGN_OR_RETURN(out.pipeline, make(out.simulated));
      FORETRACE_ASSIGN_OR_RETURN(out.timing, TimePipeline(out.pipeline));
      if (const auto difference = PeriodOf(out.timing, period, out.simulated)) {
        out.shift = SimTime::FromPs(difference->ps() * left_out);
        return out;
      }
    }
  }
  out.simulated = microbatches;
  FORETRACE_ASSIGN_OR_RETURN(out.pipeline, make(microbatches));
  FORETRACE_ASSIGN_OR_RETURN(out.timing, TimePipeline(out.pipeline));
  return out;
}

}  // namespace foretrace
