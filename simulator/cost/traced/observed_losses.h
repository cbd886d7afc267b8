#pragma once
// What kernels of losses wait for and compute beside their bytes, as their names say.

#include <string_view>

#include "simulator/cost/operator/kernel_work.h"
#include "simulator/cost/operator/trace_operator.h"

namespace foretrace {

// Of the scores of chosen classes.
void AddStepsOfChosen(std::string_view name, KernelWork& work);
// Of a softmax of one pass.
void AddOnlineSoftmax(std::string_view name, const ElementAccess& access, KernelWork& work);

}  // namespace foretrace
