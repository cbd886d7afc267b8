#pragma once
// Tells observers what happened and why. Runs after the simulation, over its schedule, so that a run
// without observers costs nothing and no observer can change timing.

#include <span>

#include "simulator/engine/observer.h"
#include "simulator/engine/program.h"

namespace foretrace {

void Explain(const TraceStore& store, const Program& program, const Schedule& schedule,
             std::span<EngineObserver* const> observers);

}  // namespace foretrace
