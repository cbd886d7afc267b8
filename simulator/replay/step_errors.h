#pragma once
// Compares a prediction with what its traces recorded.

#include <cstdint>
#include <optional>
#include <vector>

#include "simulator/base/real_quantities.h"
#include "simulator/engine/replay.h"

namespace foretrace {

struct StepError {
  int64_t step = 0;
  uint32_t rank_index = 0;
  SimTime measured;
  SimTime predicted;
  double error = 0;  // signed fraction
  // Likewise of the step until its device work is done, and from one such completion to the next
  // (engine/step_times.h); unset where there is none.
  std::optional<double> completion_error;
  std::optional<double> period_error;
  // CPU time in blocking calls, as a share of the predicted step.
  double blocked_share = 0;
  // Distance of device starts, relative to the step's begin, between prediction and recording.
  RealUs kernel_start_median;
  RealUs kernel_start_p90;
  std::vector<RealUs> kernel_starts;  // of every device node in the step
  bool partial = false;               // work was in flight when the recording began
  bool followed = false;              // the rank has more steps
  bool idle = false;                  // no call and no device work of the recording runs in it
};

// CPU time of a rank in blocking calls between two predicted times.
SimTime BlockedWithin(const RankProgram& program, const RankSchedule& times, SimTime from,
                      SimTime to);

std::vector<StepError> CompareSteps(const TraceStore& store, const Prediction& prediction);

}  // namespace foretrace
