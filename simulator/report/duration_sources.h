#pragma once
// What device time rests on: recorded, or which models, and where these were asked beyond their
// range or had no answer.

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "simulator/report/classify.h"
#include "simulator/report/event_table.h"

namespace foretrace {

// Device work of one framework op from one source.
struct DurationEntry {
  StringId name;  // the innermost framework op, else the device node itself
  EstimateSource source = EstimateSource::kRecorded;
  bool extrapolated = false;
  int64_t count = 0;  // device nodes
  SimTime predicted;  // communication from the arrival of its last member
  SimTime recorded;   // zero where the trace has no durations, and for communication (waiting)
  double share = 0;   // of predicted device time; of recorded device time for missing ones
};

struct DurationSources {
  SimTime device_time;  // predicted, over all ranks
  std::array<SimTime, static_cast<size_t>(EstimateSource::kCount)> by_source{};
  SimTime extrapolated;
  int64_t missing = 0;       // device nodes without a duration from any model
  SimTime missing_recorded;  // what the trace recorded for them
  // By op, largest share first; empty when all is recorded. At most the limit; `ops` counts all.
  std::vector<DurationEntry> entries;
  int64_t ops = 0;

  bool all_recorded() const { return ops == 0; }
};

// Over the device work that starts within the windows. What is recorded, or within a calibrated
// range, gives way to what is not where there are more than `limit` entries.
DurationSources ComputeDurationSources(const EventTable& table, const Classifier& classifier,
                                       std::span<const IterationWindow> windows, size_t limit);

}  // namespace foretrace
