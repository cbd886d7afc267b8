#pragma once
// What the exchanges of a mapping's sharded graph take (graph/shard.h): of a layer, and of what is
// outside of layers.

#include "simulator/mapping/group_costs.h"
#include "simulator/mapping/layer_costs.h"
#include "simulator/mapping/mapped_layer.h"

namespace foretrace {

// Sets layer_exchanges, embedding_exchanges, head_exchanges and expert_nodes. `model`: the config
// that `layer` is of; `kernels`: of the layer, which may hide exchanges of its GEMMs' inputs, of
// its keys and values, and of its experts.
void SetGraphExchanges(const TransformerConfig& model, const ParallelMapping& mapping,
                       const MappedLayer& layer, const ClusterParameters& cluster,
                       const GroupCosts& groups, const PassCost& kernels, PassTimes& times);

}  // namespace foretrace
