#pragma once
// GEMMs of a state-space mixer's scan that weigh one operand, or their result, by decays between
// tokens.

#include "simulator/graph/operator_graph.h"
#include "simulator/mapping/iteration_model.h"
#include "simulator/mapping/mapped_layer.h"

namespace foretrace {

// What such a GEMM takes at least, in seconds; 0: of other kernels, or the device's multiprocessors
// are not known. Decays, an exponential of a difference for each two tokens of a chunk, are made in
// registers, which leave a multiprocessor few warps to hide anything behind: on an H100 and an H200
// Triton's kernel of the results attains 100 TFLOP/s with masked products counted, 0.76 a
// multiprocessor. Two sources, with chunks of 128 or of 256 tokens alike: the forward scan's five
// kernels take 649 us for 8,192 tokens of 128 heads of 64, states of 128 (vLLM, pull request 27299,
// "Original"), of which the others take 180 to 290 by their bytes; 0.64 ms for 16,384 tokens of 80
// heads, chunks of 256 (TileOPs, pull request 1608, 2p7b-b4-4k). Backward kernels are taken to be
// alike.
double DecayGemmSeconds(const MappedLayer& layer, const GraphOp& op, const KernelWork& work,
                        const ClusterParameters& cluster);

// What a device copies each way around a scan whose sequence it has a part of: what is projected is
// put together by receiver, and what arrived as one tensor and in the order of the tokens, which
// attention has in two parts; results alike, back (Megatron Core, ssm/mamba_context_parallel.py,
// pre_conv_ssm, post_conv_ssm).
KernelList ScanCopies(const MappedLayer& layer, const GraphOp& op);

}  // namespace foretrace
