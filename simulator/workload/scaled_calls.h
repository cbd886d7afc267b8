#pragma once
// Calls of a model's operators on other numbers of samples.

#include <cstdint>

#include "simulator/cost/operator/operator.h"

namespace foretrace {

// Makes a call on `from` samples one on `to`: its batch dimension. False: a GEMM, convolution or
// attention has no whole batch dimension then.
bool ScaleSamples(int64_t from, int64_t to, OperatorCall& call);

}  // namespace foretrace
