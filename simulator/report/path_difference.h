#pragma once
// Where the difference between two steps comes from: what their critical paths are spent on, side
// by side. A path tiles its step exactly, so that the differences add up to that of the steps.

#include <vector>

#include "simulator/report/critical_path.h"
#include "simulator/report/prediction_report.h"

namespace foretrace {

struct ExplainedStep {
  const TraceStore& store;
  const Classifier& classifier;
  const CriticalPath& path;
  const EventTable& table;
  const CommunicatorNames& communicator_names;
};

// The largest differences first.
std::vector<StepCause> ComparePaths(const ExplainedStep& before, const ExplainedStep& after);

}  // namespace foretrace
