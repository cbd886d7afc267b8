#pragma once
// Sizes as people read them.

#include "simulator/base/real_quantities.h"
#include "simulator/base/units.h"

namespace foretrace {

inline double Gib(RealBytes bytes) { return bytes.count() / (1 << 30); }
inline double Gib(Bytes bytes) { return Gib(RealBytes(bytes)); }

}  // namespace foretrace
