#pragma once

#include "simulator/engine/program.h"

namespace foretrace {

// The job on CPUs that take `factor` times as long for everything: calls, blocking calls beside
// what they wait for, and the time between them.
void ScaleCpu(Program& program, double factor);

}  // namespace foretrace
