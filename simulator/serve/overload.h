#pragma once
// Whether requests came faster than they were served.

#include <array>
#include <vector>

#include "simulator/serve/engine.h"

namespace foretrace::serve {

// Watches the queue while requests arrive. Overloaded: from some moment on the queue never emptied
// until the last arrival, over more than a tenth of the trace's span, and from the second third of
// that time to the last it did not shrink so that, at this pace, it would be empty after as long
// again. A queue that a burst leaves behind does.
class OverloadJudge {
 public:
  explicit OverloadJudge(const RequestTrace& trace);
  void OnStep(const StepRecord& record);
  // SimTime::Max(): not overloaded.
  SimTime From() const;
  // Of the time of arrivals, in which requests waited that no step could take.
  double QueuedShare() const;

 private:
  struct Sample {
    SimTime at;
    int32_t waiting;
  };
  SimTime first_, last_;          // arrivals
  std::vector<int32_t> waiting_;  // by engine, at its last step
  int64_t queue_ = 0;             // of all engines
  SimTime seen_, queued_;         // the last step; time in which the queue was not empty
  SimTime empty_until_;
  std::vector<Sample> samples_;  // since then
};

}  // namespace foretrace::serve
