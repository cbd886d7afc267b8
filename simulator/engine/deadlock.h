#pragma once

#include "absl/status/status.h"
#include "simulator/engine/program.h"
#include "simulator/engine/rendezvous.h"

namespace foretrace {

// Explains why a run came to a stop: names up to a few blocked ranks, their nodes, and what each
// waits for. Items without an end in `schedule` have not finished. What to do about it only those
// know who know where the program is from.
absl::Status DeadlockError(const TraceStore& store, const Program& program,
                           const Schedule& schedule, const RendezvousTracker& tracker);
bool IsDeadlock(const absl::Status& status);

}  // namespace foretrace
