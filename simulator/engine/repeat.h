#pragma once
// One step of a job over and over: what the job does in steady state. The CPU then runs ahead of
// the device for as long as the launch queue lets it, whatever the recording began or ended with.

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/engine/program.h"

namespace foretrace {

// A program of nothing but one step, `copies` times in a row.
struct RepeatedStep {
  // Items of copy c: [begin + c * count, begin + (c + 1) * count).
  struct Lane {
    uint32_t begin = 0;
    uint32_t count = 0;
  };
  Program program;
  uint32_t copies = 0;
  std::vector<std::vector<Lane>> lanes;  // by rank and lane, as RankProgram::lanes

  // From a rank's completion of the copy `from` to that of `to`, on the rank on which it is
  // longest: where one rank's work is done long after the others', another may still be the slower.
  // And the same of CPUs alone.
  SimTime Took(const Schedule& schedule, uint32_t from, uint32_t to) const;
  SimTime CpuTook(const Schedule& schedule, uint32_t from, uint32_t to) const;

  struct Pace {
    // Of the slowest lane from one copy to the next. Where lanes go at several, it is the one that
    // stays: who does not wait for the slowest is not held up by it, who does will be.
    SimTime slowest;
    // A CPU that blocks on its device was not yet held by it, which it gets further ahead of.
    bool gets_ahead = false;
  };
  // Unset where, over the last three copies, some lane does not go on by one and the same time
  // within `tolerance` with all of its items: then what holds it up still changes.
  std::optional<Pace> PaceOf(const Schedule& schedule, SimTime tolerance) const;

 private:
  // When a rank's CPU is through with a copy, and when its device work is done too.
  SimTime CpuDone(const Schedule& schedule, size_t rank, uint32_t copy) const;
  SimTime Done(const Schedule& schedule, size_t rank, uint32_t copy) const;
};

// The step lasts from the end mark of the one before to its own. What waits for work of the step
// before waits for that of the copy before: the work as far from the step's beginning on its lane.
// Errors (not found): the step is not marked on every rank; communication of it lies in other steps
// on other ranks.
absl::StatusOr<RepeatedStep> RepeatStep(const TraceStore& store, const Program& program,
                                        int64_t step, uint32_t copies);

struct SteadyState {
  int64_t step = 0;
  // From one completion of a step's work to the next, on the slowest rank: the inverse of
  // throughput.
  SimTime period;
  // The same of the CPU alone. Shorter while it runs ahead and the launch queue has room.
  SimTime cpu_period;
  uint32_t copies = 0;
  bool settled = false;  // no lane's pace changes by more than 0.01 % of it; else it is a mean
};

// Errors also: a network in which transfers contend, which runs but once.
absl::StatusOr<SteadyState> FindSteadyState(const TraceStore& store, const Program& program,
                                            int64_t step, NetworkModel* network);

}  // namespace foretrace
