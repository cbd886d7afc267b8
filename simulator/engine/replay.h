#pragma once
// Predicts a job: compiles its traces, executes them, and measures iterations. The parts may be
// taken apart: a job compiled once is edited (edit.h) and run as often as there are questions.

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

// Executes a compiled job and measures its iterations.
absl::StatusOr<Prediction> Replay(const TraceStore& store, CompiledJob job, NetworkModel* network);

// The iterations of a program of `job` (as compiled, or edited) under a schedule.
std::vector<PredictedRank> MeasureRanks(const TraceStore& store, const CompiledJob& job,
                                        const Program& program, const Schedule& schedule);

// What becomes of the items, waits and rendezvous of Prediction::job, and of its reconstruction.
// Reports over observed events do without; freed while observers are told, they make room for what
// these keep.
enum class ProgramUse : uint8_t { kKeep, kFree };

void Tell(const TraceStore& store, Prediction& prediction,
          std::span<EngineObserver* const> observers, ProgramUse program);

// Compile, Replay and Tell.
absl::StatusOr<Prediction> Predict(const TraceStore& store, const CompileOptions& options,
                                   NetworkModel* network,
                                   std::span<EngineObserver* const> observers = {},
                                   ProgramUse program = ProgramUse::kKeep);

}  // namespace foretrace
