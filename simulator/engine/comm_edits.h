#pragma once
// What-ifs on collectives of compiled jobs: groups of other sizes, gradients in other buckets.

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

}  // namespace foretrace
