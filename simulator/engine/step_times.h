#pragma once
// What a step takes, in three definitions that agree only where the CPU waits for the device in
// every step; each predicted and, likewise, recorded.

#include <optional>
#include <vector>

#include "simulator/engine/replay.h"

namespace foretrace {

struct StepTimes {
  SimTime cpu;         // from the step's begin mark on the CPU to its end mark
  SimTime completion;  // from its begin mark until the device work that it issued is done too
  // From the completion of the step before to its own; unset for a rank's first step.
  std::optional<SimTime> period;
  SimTime done;  // when it is complete
};

struct MeasuredStep {
  int64_t number = 0;
  StepTimes predicted;
  StepTimes recorded;
};

// By rank, as PredictedRank::iterations. Empty for ranks without step marks, and for traces without
// times.
std::vector<std::vector<MeasuredStep>> MeasureSteps(const TraceStore& store,
                                                    const Prediction& prediction);
// Of traces with times, by a program of theirs (as compiled, or edited) and its schedule.
std::vector<std::vector<MeasuredStep>> MeasureSteps(const TraceStore& store, const Program& job,
                                                    const Schedule& schedule);

// The step that stands for all: of median predicted CPU time over the slowest ranks (the shorter of
// two), among those that all ranks have and in which some device starts work. With `unedited`, the
// prediction without a change, the one nearest to the median in both together, so that neither side
// of the comparison is of an outlier. Unset: there is none.
std::optional<int64_t> RepresentativeStep(const TraceStore& store, const Prediction& prediction,
                                          const Prediction* unedited = nullptr);

}  // namespace foretrace
