#pragma once
// The size of a collective's message, as the multi-GPU paper defines it (section IV-A): "the
// maximum of (the maximum of sent/received message size per device) across all devices".

#include <cstddef>
#include <cstdint>
#include <span>

#include "simulator/base/units.h"

namespace foretrace {

// An all-to-all of `members` ranks; `splits` is row-major, bytes from member i to member j.
// Requires members x members entries.
Bytes AllToAllMessageSize(std::span<const int64_t> splits, size_t members);

}  // namespace foretrace
