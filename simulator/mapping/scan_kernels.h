#pragma once
// GEMMs of a state-space mixer's scan that weigh one operand, or their result, by decays between
// tokens.

#include "simulator/graph/operator_graph.h"
#include "simulator/mapping/iteration_model.h"
#include "simulator/mapping/mapped_layer.h"

namespace foretrace {

// Of one of a scan's kernels LeastSecondsOfDecays on the cluster's devices; 0: of other operators.
double DecayGemmSeconds(const MappedLayer& layer, const GraphOp& op, const KernelWork& work,
                        const ClusterParameters& cluster);

// What a device copies each way around a scan whose sequence it has a part of: what is projected is
// put together by receiver, and what arrived as one tensor and in the order of the tokens, which
// attention has in two parts; results alike, back (Megatron Core, ssm/mamba_context_parallel.py,
// pre_conv_ssm, post_conv_ssm).
KernelList ScanCopies(const MappedLayer& layer, const GraphOp& op);

}  // namespace foretrace
