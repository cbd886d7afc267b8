#pragma once
// Runs a Program. Two executors with the same answers: `RunStraight` advances each lane as far as
// it can without a global queue, which needs program order on every lane; `RunDataflow` processes
// events in order of time and also handles lanes that run what is ready first.

#include "absl/status/statusor.h"
#include "simulator/engine/program.h"

namespace foretrace {

// `network` decides rendezvous that are not fixed; may be null when all are. Names are for errors.
// Errors: deadlock, naming ranks, nodes and what each waits for.
absl::StatusOr<Schedule> RunStraight(const TraceStore& store, const Program& program,
                                     NetworkModel* network);
absl::StatusOr<Schedule> RunDataflow(const TraceStore& store, const Program& program,
                                     NetworkModel* network);

// True when lanes run what is ready first, or work of several streams contends for the device: only
// events in order of time can then tell who comes first.
bool NeedsDataflow(const Program& program);

// Runs a Program with the executor that it needs; the one place that chooses. Further errors: work
// that takes longer than kLongestProgram, naming the file of a rank.
absl::StatusOr<Schedule> Execute(const TraceStore& store, const Program& program,
                                 NetworkModel* network);

}  // namespace foretrace
