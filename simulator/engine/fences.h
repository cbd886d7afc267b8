#pragma once
// Kernels that end while a collective beside them moves data take longer, by an amount.
//
// The end of a kernel makes its writes visible, and waits meanwhile for all stores that the device
// has under way, those of NCCL's kernel to other devices among them (CUDA programming guide,
// "Memory Fence Interference", which names this case). How long they take to drain hangs on the
// collective, not on the kernel: one block of 3 us gains as much as a thousand. From compute
// capability 9.0 on the library keeps its stores in a domain of their own.
//
// Which kernels these are follows from a schedule, which changes with them; it is worked out from
// the schedule without and once more from the one that this gives.

#include "absl/status/statusor.h"
#include "simulator/engine/replay.h"

namespace foretrace {

// Whether any rank's device has them.
bool HasFences(const Program& program);

// Replays the job with what its modelled kernels wait; recorded ones, which contain it, where
// CompiledJob::recorded_fences are known, by the change against these. In a network where transfers
// contend, which runs once, without.
absl::StatusOr<Prediction> ReplayWithFences(const TraceStore& store, CompiledJob job,
                                            NetworkModel* network);

// Takes out of the durations what ReplayWithFences added: for edits of a job that was replayed.
void RemoveFences(Program& program);

// What the recorded kernels of a job wait in a replay of it, for CompiledJob::recorded_fences.
// Empty where the recording does not show it: of at least five kernels that end beside moving data,
// and have their like elsewhere, the median is longer by half of the wait to twice of it, and nine
// of ten by something.
std::vector<std::vector<std::pair<NodeIndex, SimTime>>> FencesOf(const TraceStore& store,
                                                                 const Prediction& recorded);

}  // namespace foretrace
