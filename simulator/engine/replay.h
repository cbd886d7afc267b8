#pragma once
// Predicts a job: compiles its traces, executes them, and measures iterations.

#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/engine/compile.h"
#include "simulator/engine/observer.h"

namespace foretrace {

struct PredictedIteration {
  int64_t number = 0;
  SimTime predicted_start;
  SimTime predicted_end;
  SimTime recorded_start;  // zero when the trace has no times
  SimTime recorded_end;
  // Device work was in flight when the recording began and this is its first step, or some
  // communication of the step meets nobody.
  bool partial = false;
};

struct PredictedRank {
  std::vector<PredictedIteration> iterations;  // at least one
  SimTime blocked;                             // CPU time in blocking calls, all iterations
  SimTime kernel_time_of_busiest_stream;
};

struct Prediction {
  CompiledJob job;
  Schedule schedule;
  std::vector<PredictedRank> ranks;
  // Iterations are marked in the traces; else the one iteration is the whole trace.
  bool marked_iterations = false;

  // Predicted CPU time of a recorded time of a rank, by the nearest points around it.
  SimTime PredictedCpuTime(RankIndex rank, SimTime recorded) const;
};

// What becomes of the items, waits and meetings of Prediction::job. Reports over observed events do
// without; freed while observers are told, they make room for what these keep.
enum class ProgramUse : uint8_t { kKeep, kFree };

absl::StatusOr<Prediction> Predict(const TraceStore& store, const CompileOptions& options,
                                   NetworkModel* network,
                                   std::span<EngineObserver* const> observers = {},
                                   ProgramUse program = ProgramUse::kKeep);

}  // namespace foretrace
