#pragma once
// A mapping as per-rank traces: what every chip computes, reads and sends, in which order, for the
// event engine to run. Where nothing contends it takes what the closed forms say.

#include <cstdint>
#include <functional>
#include <stop_token>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/dataflow/mapping.h"
#include "simulator/mapping/trace_emitter.h"

namespace foretrace::dataflow {

struct LoweringOptions {
  // Communication has the durations of the mapping; else sizes alone, for a network model.
  bool communication_durations = true;
  std::function<void(int64_t done, int64_t chips)> progress;  // after each chip; empty: none
  std::stop_token stop;
};

// Rank: the chip's place in the system's dimensions, the first running fastest. Partitions follow
// each other on a compute stream, their exchanges on another: beside it where the machine overlaps
// them, else after it. Stages run one forward and one backward micro-batch in turn (1F1B).
// Gradients are reduced and the optimizer runs at the end. Errors: infeasible: more than
// kMaxGeneratedNodes; cancelled where `stop` was asked for.
absl::StatusOr<std::vector<RankTraceBuilder::Result>> LowerToTraces(const Workload& workload,
                                                                    const System& system,
                                                                    const MappedWorkload& mapped,
                                                                    const LoweringOptions& options);

}  // namespace foretrace::dataflow
