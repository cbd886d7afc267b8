#pragma once
// Which operator of an execution trace is which of a profile, from the order of their names.

#include <cstdint>
#include <span>
#include <vector>

namespace foretrace {

// Aligns `needle` (names of one thread of an execution trace, as interned ids, in order) with
// `haystack` (those of one thread of a profile), which may hold further iterations before and
// after. Returns, for each element of `needle`, its position in `haystack`, ascending, or -1.
// First the shift that most runs of consecutive names agree on, then, from there, the longest
// common subsequence with up to `max_edits` insertions and deletions; beyond those, what is left
// stays unmatched.
std::vector<int32_t> AlignNames(std::span<const uint32_t> needle,
                                std::span<const uint32_t> haystack, int max_edits = 2000);

}  // namespace foretrace
