#pragma once
// The one place where a plan becomes events: nodes of traces, one trace a device, of which
// engine/compile.h makes a Program.

#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>

#include "absl/status/statusor.h"
#include "simulator/plan/job_plan.h"
#include "simulator/trace/rank_trace.h"

namespace foretrace {

struct LoweringOptions {
  // Communication has the durations of the plan; else sizes alone, for a network model.
  bool communication_durations = true;
  // What one launch costs the CPU, which issues everything in order from one thread; zero: no CPU
  // work is written. The first kernel then starts one launch later; the rest runs as without where
  // no kernel is shorter.
  SimTime launch;
  std::function<void(int64_t done, int64_t devices)> progress;  // after each device; empty: none
  std::stop_token stop;
};

// At most this many nodes in one lowered job (2 GB of store).
inline constexpr double kMaxLoweredNodes = 2e7;

// Infeasible where a plan of that name has more nodes; `shorter` as JobPlan's. For notations whose
// lists of passes would be too long themselves.
absl::Status CheckNodes(double nodes, const std::string& name, const std::string& shorter);

// Traces without times. Kernels are on one stream, in the order of the schedule; exchanges, sends
// and receives on another, beside them. A pass begins with its receives, which wait for nothing,
// and ends with its sends. Rank by rank, of all stages. Errors: infeasible: more than
// kMaxLoweredNodes; cancelled where `stop` was asked for.
absl::StatusOr<TraceStore> Lower(const JobPlan& plan, const LoweringOptions& options);

}  // namespace foretrace
