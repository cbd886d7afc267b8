#pragma once
// What the exchanges of a mapping's sharded graph take (graph/shard.h): of a layer, and of what is
// outside of layers.

#include "simulator/mapping/group_costs.h"
#include "simulator/mapping/layer_costs.h"
#include "simulator/mapping/mapped_layer.h"

namespace foretrace {

// Sets layer_exchanges, embedding_exchanges and head_exchanges. `model`: the config that
// `layer` is of; `kernels`: of the layer, which may hide exchanges of its GEMMs' inputs and of
// its keys and values; `forms`: in which they run.
void SetGraphExchanges(const TransformerConfig& model, const ParallelMapping& mapping,
                       const MappedLayer& layer, const GroupCosts& groups, const PassCost& kernels,
                       const KernelForms& forms, PassTimes& times);

}  // namespace foretrace
