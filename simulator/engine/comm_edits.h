#pragma once
// What-ifs on collectives of compiled jobs: groups of other sizes, gradients in other buckets.
// Where a rendezvous is added to a program, the job's communicators have it too.

#include <cstdint>
#include <functional>

#include "absl/status/statusor.h"
#include "simulator/engine/compile.h"
#include "simulator/engine/edit.h"
#include "simulator/network/network_model.h"

namespace foretrace {

// The groups of the chosen collectives have `size` members, all of which arrive as the present ones
// do: what a collective takes after the last arrival changes by the ratio of what the network takes
// for both groups, of the same bytes. Further members follow at the distance of the present ones.
// Returns how many collectives changed. Errors: an operation whose bytes depend on the size of its
// group (all-to-all, gather, scatter), or sends and receives; what the network refuses.
absl::StatusOr<size_t> ChangeGroupSize(const TraceStore& store, const CompiledJob& job,
                                       const ItemSet& items, int32_t size, NetworkModel& network,
                                       Program& program);

// Neighbouring all-reduces or reduce-scatters of one communicator in one step become one, from the
// first on until they hold `bytes`: it is issued where the last of them was, takes as long as the
// network says that its bytes take more than the last one's, and what waited for any of them waits
// for it. `network` null: as the line through the recorded times over bytes of that communicator
// says. Returns how many collectives are gone. Errors: work that waits for one of them before the
// last is issued; recorded buckets of one size without a network.
absl::StatusOr<size_t> MergeBuckets(const TraceStore& store, const CompiledJob& job,
                                    const ItemSet& items, Bytes bytes, NetworkModel* network,
                                    Program& program);

// All-reduces and reduce-scatters that hold twice `bytes` or more become as many of equal size as
// hold `bytes` each. The gradients of a bucket get ready in proportion to the device time of the
// backward pass since the bucket before (of all work, where no call is known to be of a backward
// pass), which the recording does not show: each piece is issued, at the cost of the launch on
// record, once its share is, and waits for what it waited for as far as that was issued by then.
// Its time follows from the bytes as MergeBuckets has it. What waited for the bucket waits for the
// last piece. Returns how many pieces there are more. Errors: recorded buckets of one size without
// a network.
absl::StatusOr<size_t> SplitBuckets(const TraceStore& store, CompiledJob& job, const ItemSet& items,
                                    Bytes bytes, NetworkModel* network, Program& program);

}  // namespace foretrace
