#pragma once
// What a layer exchanges over the tensor-parallel group.

#include "simulator/mapping/group_costs.h"
#include "simulator/mapping/iteration_model.h"
#include "simulator/mapping/layer_costs.h"

namespace foretrace {

// Backward one reduction for each that leads into the divided regions; under sequence parallelism
// also an all-gather of its input, where that is not kept, and both can hide; the gathering of the
// gradient at the region's end cannot. `hidden`: bytes of the activations between regions.
void SetTensorExchanges(const TransformerConfig& model, const ParallelMapping& mapping,
                        const GroupCosts& groups, const PassCost& layer, double hidden,
                        PassTimes& times);

}  // namespace foretrace
