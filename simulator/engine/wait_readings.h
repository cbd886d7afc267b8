#pragma once
// Readings of waits of which the recording does not show what they wait for
// (reconstruct/unshown_waits.h), for questions of how much an answer depends on them.

#include "simulator/engine/compile.h"

namespace foretrace {

enum class WaitReading : uint8_t {
  kNothing,  // they wait for nothing: no answer is earlier
  kLatest,   // for the latest that the recording allows: none is later
};

// How many other readings there are of waits that held something up.
size_t OtherReadings(const CompiledJob& job);
// Replaces in `program`, which is `job.program` unedited, these waits by the reading of that
// number.
void ReadOtherwise(const CompiledJob& job, size_t number, Program& program);

// The same of what the compiler took waits to mean that held nothing up.
void ReadUnshownWaits(const CompiledJob& job, WaitReading reading, Program& program);

// Senders of which nothing shows that they wait for their receivers do not.
void ReadAsBuffered(const CompiledJob& job, Program& program);

}  // namespace foretrace
