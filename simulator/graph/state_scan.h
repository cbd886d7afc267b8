#pragma once
// The scan of a state-space mixer (Mamba-2, "Transformers are SSMs", 2024, section 6) as the calls
// of the kernels that training software has for it: state-spaces/mamba, ops/triton/ssd_combined.py,
// MambaSplitConv1dScanCombinedFn, which Megatron Core runs (ssm/mamba_mixer.py,
// use_mem_eff_path).

#include <string_view>

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
  bool delta = false;  // a gated delta rule instead (delta_rule.h)
};
// What an operator's `function` says of that.
inline constexpr std::string_view kDeltaRule = "delta rule";

// An operator's first inputs, which its backward pass reads, beside the second output, the result
// before the gate: gate and input [batch, groups, tokens, width], what writes and what reads states
// [batch, groups, tokens, state], steps [batch, heads, tokens]. Then weights: filters of the three
// that are convolved, [.., taps], their biases, and by head the decay, the skip and the step's
// bias. Of a delta rule the first are step sizes [batch, heads, tokens], values, keys, queries and
// decays [batch, heads, tokens], without biases and skip; it keeps all of its further outputs.
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

// What such a GEMM takes at least, in seconds; 0: of other kernels, or the device's multiprocessors
// are not known. Decays, an exponential of a difference for each two tokens of a chunk, are made in
// registers, which leave a multiprocessor few warps to hide anything behind: on an H100 and an H200
// Triton's kernel of the results attains 100 TFLOP/s with masked products counted, 0.76 a
// multiprocessor. Two sources, with chunks of 128 or of 256 tokens alike: the forward scan's five
// kernels take 649 us for 8,192 tokens of 128 heads of 64, states of 128 (vLLM, pull request 27299,
// "Original"), of which the others take 180 to 290 by their bytes; 0.64 ms for 16,384 tokens of 80
// heads, chunks of 256 (TileOPs, pull request 1608, 2p7b-b4-4k). Backward kernels are taken to be
// alike.
inline constexpr double kFlopOfDecays = 0.76e12;  // a second and multiprocessor
double LeastSecondsOfDecays(const StateScan& scan, const KernelWork& work, int32_t multiprocessors);

// Of a sequence that is served, between its steps: the states, of `state_width` bytes an element,
// and what the convolution reaches back to, in the model's type (vLLM,
// model_executor/layers/mamba/mamba_utils.py, mamba2_state_shape).
int64_t SequenceStateBytes(const StateScan& scan, int64_t state_width);

// Prompts of a step of an engine, whose `scan.tokens` lie one after another in `chunks` chunks,
// none of which has tokens of two (vLLM, v1/attention/backends/mamba2_attn.py), of so many
// `sequences`, `continued` of which have tokens before. As forward in training, but that the gate
// is read by the norm behind, which is counted with the results, no result before it is kept,
// states go from chunk to chunk in the type that they are kept in, are copied in where they go on
// and out in the end (model_executor/layers/mamba/mamba_mixer2.py, ops/ssd_combined.py).
struct PromptScan {
  int64_t chunks = 0, sequences = 0, continued = 0;
  int64_t state_width = 4;
  int64_t longest = 0;  // chunks of one prompt
};
CallList PromptScanCalls(const StateScan& scan, const PromptScan& prompts);

// Sequences that take `tokens` each, one after the other: the convolution, and the states' update
// with what it reads of them (ops/causal_conv1d.py, causal_conv1d_update; ops/mamba_ssm.py,
// selective_state_update). States are read once and written after each token, since of drafts the
// ones that are accepted count.
KernelList UpdateKernels(const StateScan& scan, int64_t sequences, int64_t tokens,
                         int64_t state_width);

}  // namespace foretrace
