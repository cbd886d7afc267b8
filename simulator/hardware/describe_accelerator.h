#pragma once

#include <string>

#include "simulator/hardware/accelerator.h"

namespace foretrace {

// What a file says of an accelerator, for people.
std::string DescribeAccelerator(const Accelerator& accelerator);

}  // namespace foretrace
