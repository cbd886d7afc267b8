#pragma once
// Where ranks meet, compiled; a detail of compile.h.

#include <span>
#include <vector>

#include "absl/status/status.h"
#include "simulator/engine/compile.h"

namespace foretrace {

// Adds the rendezvous of job.communicators to job.program, whose ranks are complete but for them.
// `links`: of each rank's device to others; `item_of` by rank and node. Errors: transfers to be
// modelled that lack a size or an operation.
absl::Status AddRendezvous(const TraceStore& store, const CompileOptions& options,
                           std::span<const SimTime> clock_offset, std::span<const Bandwidth> links,
                           const std::vector<std::vector<uint32_t>>& item_of, CompiledJob& job);

}  // namespace foretrace
