#pragma once
// Readings of waits that held nothing up when recorded (reconstruct/unshown_waits.h), for questions
// of how much an answer depends on them.

#include "simulator/engine/compile.h"

namespace foretrace {

enum class WaitReading : uint8_t {
  kNothing,  // they wait for nothing: no answer is earlier
  kLatest,   // for the latest that the recording allows: none is later
};

// Replaces in `program`, which is `job.program` unedited, what the compiler took them to mean.
void ReadUnshownWaits(const CompiledJob& job, WaitReading reading, Program& program);

}  // namespace foretrace
