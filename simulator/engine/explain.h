#pragma once
// Tells observers what happened and why. Runs after the simulation, over its schedule, so that a
// run without observers costs nothing and no observer can change timing.

#include <cstdint>
#include <functional>
#include <span>

#include "simulator/engine/observer.h"
#include "simulator/engine/program.h"

namespace foretrace {

// `told` is called when all of a rank has been told and its part of the program is needed no more.
void Explain(const TraceStore& store, const Program& program, const Schedule& schedule,
             std::span<EngineObserver* const> observers,
             const std::function<void(uint32_t rank)>& told = nullptr);

}  // namespace foretrace
