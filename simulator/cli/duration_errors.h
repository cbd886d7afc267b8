#pragma once
// Modelled against recorded durations of device work, by class of operator.

#include <string>
#include <vector>

#include "simulator/base/statistics.h"
#include "simulator/engine/replay.h"

namespace foretrace {

class KernelCostModel;

struct DurationErrorRow {
  std::string case_name;
  std::string operator_class;  // "gemm", "memcpy htod_pinned", "all_reduce", "(no model)"
  ErrorSummary errors;         // one for each operator call, collective or lone device node
  double bias_percent = 0;     // of the summed durations
  double share = 0;            // of the recorded device time compared
  int64_t extrapolated = 0;    // calls with an estimate beyond a calibrated range, or analytic
};

// `recorded` and `modelled` are predictions of one store that differ in durations alone. The kernels
// of one call are added up before they are compared: how a library splits an operator is not
// predicted. Collectives count from the arrival of the last member, where every member is there.
// Rows by share, largest first; work that keeps its recorded duration is left out.
std::vector<DurationErrorRow> CompareDurations(const TraceStore& store,
                                               const Prediction& recorded,
                                               const Prediction& modelled,
                                               const KernelCostModel& kernels);

}  // namespace foretrace
