#pragma once
// Small constant latencies of a platform, measured on the recording itself as medians and means over
// many launches; or given by the user.

#include <optional>

#include "simulator/trace/infer/sync_rules.h"

namespace foretrace {

struct Latencies {
  // From the begin of a launch call to the begin of its kernel on an idle stream.
  SimTime launch = SimTime::FromNs(8'000);
  // Between two kernels of a busy stream.
  SimTime gap = SimTime::FromNs(1'200);
  // From the end of work on one stream to the begin of work on another that waits for it.
  SimTime event = SimTime::FromNs(2'000);
  // How many samples each rests on; 0: the default above.
  int64_t launch_samples = 0;
  int64_t gap_samples = 0;
  int64_t event_samples = 0;
};

// Communication kernels take no part: their recorded times contain waiting.
Latencies MeasureLatencies(const RankTrace& rank, const RankSync& sync);

}  // namespace foretrace
