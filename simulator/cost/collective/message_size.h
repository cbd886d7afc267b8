#pragma once
// The size of a collective's message, as the multi-GPU paper defines it (section IV-A): "the
// maximum of (the maximum of sent/received message size per device) across all devices".

#include <span>

#include "simulator/base/units.h"
#include "simulator/trace/rank_trace.h"

namespace foretrace {

// One rank's view: the larger of what it sends and what it receives, its own part included, as
// nccl-tests counts sizes. 0 when the trace does not say.
Bytes LocalMessageSize(const RankTrace& rank, const CommAttr& comm);

// An all-to-all of `members` ranks; `splits` is row-major, bytes from member i to member j.
// Requires members x members entries.
Bytes AllToAllMessageSize(std::span<const int64_t> splits, size_t members);

}  // namespace foretrace
