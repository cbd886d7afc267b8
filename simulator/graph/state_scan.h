#pragma once
// The scan of a state-space mixer (Mamba-2, "Transformers are SSMs", 2024, section 6) as the calls
// of the kernels that training software has for it: state-spaces/mamba, ops/triton/ssd_combined.py,
// MambaSplitConv1dScanCombinedFn, which Megatron Core runs (ssm/mamba_mixer.py,
// use_mem_eff_path).

#include "simulator/cost/operator/kernel_work.h"
#include "simulator/graph/operator_graph.h"

namespace foretrace {

// What a device has of it. Heads of a group share what writes and reads their states, so that a
// group is one GEMM of all its heads' elements.
struct StateScan {
  int64_t samples = 1, tokens = 0;  // of each sample
  int64_t groups = 0, width = 0;    // elements of a group's heads
  int64_t heads = 0, state = 0;
  int64_t chunk = 0, taps = 0;  // tokens of a chunk, and that the convolution reaches over
  DType dtype = DType::kBFloat16;
};

// An operator's first inputs, which its backward pass reads, beside the second output, the result
// before the gate: gate and input [batch, groups, tokens, width], what writes and what reads states
// [batch, groups, tokens, state], steps [batch, heads, tokens]. Then weights: filters of the three
// that are convolved, [.., taps], their biases, and by head the decay, the skip and the step's
// bias.
inline constexpr int kScanTensors = 5;

StateScan ScanOf(const OperatorGraph& graph, const Binding& sizes, const GraphOp& op);

// Forward: the convolution with its activation; the running sums of the steps' decays; what each
// chunk adds to the states, in 32 bits; states from chunk to chunk; products of what reads and
// writes within a chunk, in 32 bits; the results of both with the gate, which also writes them
// before it. Backward all but the last again, then the gate's gradient, that of the states by chunk
// and from chunk to chunk, of the input, of what writes and reads (in 32 bits, then with what the
// products within chunks add), of these products, of the decays (which multiplies within chunks
// once more), their sums, and of the convolution. GEMMs are counted whole though the products
// within chunks are causal. Steps and their sums are of 32 bits.
CallList ScanCalls(const StateScan& scan, Direction pass);

// Whether a kernel of these calls is a GEMM with weights for each two tokens of a chunk: of the
// results, and of the gradients of the input, of products within chunks, and of decays.
bool WeighsByDecays(const StateScan& scan, const KernelWork& work);

}  // namespace foretrace
