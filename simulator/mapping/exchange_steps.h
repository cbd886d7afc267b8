#pragma once
// Exchanges as steps of a plan.

#include <vector>

#include "simulator/mapping/mapping_groups.h"

namespace foretrace {

PlanStep ExchangeStep(CollectiveOp op, StepName name, int32_t group, Bytes bytes, SimTime duration);

// Of gradients, in order: among those that divide them, then among those that have the same share.
std::vector<PlanStep> ReductionSteps(StepName name, const LayerExchange& exchange,
                                     const MappingGroups::Reducers& groups);

}  // namespace foretrace
