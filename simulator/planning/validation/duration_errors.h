#pragma once
// Modelled against recorded durations of device work, by class of operator.

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "simulator/base/statistics.h"
#include "simulator/engine/replay.h"

namespace foretrace {

class KernelCostModel;

// What one call, collective or lone device node took and what models say of it.
struct DurationPair {
  std::string case_name;
  int32_t rank = 0;
  std::string operator_class;
  std::string call;    // the framework's call, else the device node
  std::string shape;   // "in 512x128 128x64 out 512x64"; empty: not recorded
  std::string kernel;  // the first one
  int64_t kernels = 0;
  SimTime recorded, modelled;
  bool beyond = false;  // an estimate beyond a calibrated range, or analytic
  // Share of its recorded time that work of other streams ran beside. Models give the time of a
  // kernel alone; recorded ones share the device.
  double beside = 0;
};

struct DurationErrorRow {
  std::string case_name;
  std::string operator_class;    // "gemm", "memcpy htod_pinned", "all_reduce", "(no model)"
  ErrorSummary errors;           // one for each operator call, collective or lone device node
  double time_gmae_percent = 0;  // geometric mean of absolute errors, weighted by recorded time
  double bias_percent = 0;       // of the summed durations
  double share = 0;              // of the recorded device time compared
  int64_t extrapolated = 0;      // calls that are `beyond`
  ErrorSummary alone;            // of calls that next to nothing ran beside
  double alone_bias_percent = 0;
};

// `recorded` and `modelled` are predictions of one store that differ in durations alone. The
// kernels of one call are added up before they are compared: how a library splits an operator is
// not predicted. Collectives count from the arrival of the last member, where every member is
// there. Work that keeps its recorded duration is left out.
std::vector<DurationPair> CompareDurations(const TraceStore& store, const Prediction& recorded,
                                           const Prediction& modelled,
                                           const KernelCostModel& kernels);
// By class; rows by share, largest first.
std::vector<DurationErrorRow> ErrorsByClass(const std::vector<DurationPair>& pairs);
// One line a pair, for spreadsheets. Errors: the file cannot be written.
absl::Status WriteDurationRows(const std::vector<DurationPair>& pairs, const std::string& path);

}  // namespace foretrace
