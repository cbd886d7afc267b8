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

// Launches of kinds whose latency the recording does not show (Latencies::launch_samples).
int64_t UnshownLaunches(const TraceStore& store, const CompiledJob& job);
// They take `factor` times what is assumed.
void ScaleUnshownLaunches(const TraceStore& store, const CompiledJob& job, double factor,
                          Program& program);

// Calls of copies that returned when their copies were done, which may have held them, but not for
// so long that this would show (reconstruct/blocking_copies.h).
int64_t UnshownCopies(const TraceStore& store, const Program& program);
// They did hold them.
void ReadCopiesAsBlocking(const TraceStore& store, Program& program);

}  // namespace foretrace
