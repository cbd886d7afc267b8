#pragma once
// Backends on a recording: which of its kernels they would replace, and what the step gains.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/backends/backend.h"
#include "simulator/backends/operator_costs.h"
#include "simulator/planning/placement/placement_output.h"
#include "simulator/report/text_table.h"
#include "simulator/trace/rank_trace.h"

namespace foretrace {

struct TracedPlacementSetup {
  std::vector<Backend> backends;
  OperatorCosts costs;
  std::optional<SimTime> launch;  // unset: the gap between kernels of each rank's device
  std::string device;             // whose kernels are modelled; empty: each rank's own
  std::string kernels = "auto";   // its calibration
  bool allow_missing_ranks = false;
};

// Operators that a backend replaces alike.
struct ReplacedRegion {
  std::string backend;
  std::string types;  // "dense+gelu"
  int64_t times = 0;  // all ranks and iterations, as all sums here
  int64_t kernels = 0;
  SimTime before, after;
  EstimateSource source = EstimateSource::kRecorded;  // of `after`, the weakest
};

// The step with the backends up to one.
struct TracedStep {
  std::string added;
  SimTime step;
  std::optional<SimTime> period;
};

struct TracedPlacement {
  std::string trace;
  int64_t operators = 0, kernels = 0, iterations = 0, ranks = 0;
  int64_t kernels_gone = 0;
  SimTime device_time;    // of all kernels
  SimTime operator_time;  // of these, of operators that are known
  SimTime replaced, replacement;
  SimTime cpu_saved;  // between launches that are gone
  // The representative step on the slowest rank, until its device work is done; without steps, all.
  SimTime step_before, step_after;
  std::optional<SimTime> period_before, period_after;  // from step to step
  std::vector<ReplacedRegion> regions;                 // by what they save, most first
  std::vector<TracedStep> ablation;                    // where asked for
  std::vector<std::string> notes;
  // The graph of the first iteration that was placed on the first rank; its first backend is the
  // recording. Of `graph` the operators, choices and placement are set.
  std::shared_ptr<const OperatorView> dag;
  std::optional<PlacementAnswer> graph;
};

// On each rank and iteration, the cheapest cover of its operators by recorded kernels and those of
// backends: times are measured ones of `costs`, else the recorded times of the operators scaled by
// what a model of the device says of them together and one by one. A replaced region runs as one
// kernel in the place of its last; its other kernels, their launches and the CPU time before those
// are gone. The edited job is executed. Errors: a symbolic trace, no operator with shapes, no
// device to model and no measured times.
absl::StatusOr<TracedPlacement> PlaceTraces(const TraceStore& store,
                                            const TracedPlacementSetup& setup);

// With the first backend alone, with the first two, and so on.
absl::StatusOr<std::vector<TracedStep>> AblateTraces(const TraceStore& store,
                                                     const TracedPlacementSetup& setup);

std::string TracedPlacementText(const TracedPlacement& placed, const TextStyle& style);
std::string TracedPlacementJson(const TracedPlacement& placed);

}  // namespace foretrace
