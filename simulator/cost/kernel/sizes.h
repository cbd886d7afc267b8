#pragma once
// Sizes as factors of work.

#include <algorithm>
#include <cstdint>

namespace foretrace {

// A size that is not known counts as 1.
inline double Positive(int64_t size) { return static_cast<double>(std::max<int64_t>(size, 1)); }

}  // namespace foretrace
