#pragma once
// Devices of one kind differ in speed, and whoever takes part in a collective waits for the
// slowest.

#include <cstdint>

namespace foretrace {

// Expected maximum of `count` independent standard normal variables; 0 for one.
double ExpectedMaximum(int64_t count);

}  // namespace foretrace
