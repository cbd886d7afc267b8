#pragma once
// Whether requests came faster than they were served.

#include <array>
#include <vector>

#include "simulator/serve/engine.h"

namespace foretrace::serve {

// Watches the queue while requests arrive. Overloaded: from some moment on the queue never emptied
// until the last arrival, over more than a tenth of the trace's span, and in the last third of that
// time it was longer on average than in the third before. A queue that a burst leaves behind
// shrinks; one that is in balance does not grow.
class OverloadJudge {
 public:
  explicit OverloadJudge(const RequestTrace& trace);
  void OnStep(const StepRecord& record);
  // SimTime::Max(): not overloaded.
  SimTime From() const;

 private:
  struct Sample {
    SimTime at;
    int32_t waiting;
  };
  SimTime first_, last_;          // arrivals
  std::vector<int32_t> waiting_;  // by engine, at its last step
  int64_t queue_ = 0;             // of all engines
  SimTime empty_until_;
  std::vector<Sample> samples_;  // since then
};

}  // namespace foretrace::serve
