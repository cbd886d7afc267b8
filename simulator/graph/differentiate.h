#pragma once
// What a training pass over a bound graph runs and keeps.

#include <functional>
#include <vector>

#include "simulator/cost/operator/kernel_work.h"
#include "simulator/graph/operator_graph.h"

namespace foretrace {

// Kernels of an operator's backward pass in order of issue: first the sum of the gradients that a
// tensor with several consumers gets (one addition for each beyond the first, at the first of
// them), then the operator's own. `weights`: of weight gradients alone, which some schedules run
// later.
struct BackwardWork {
  KernelList input, weights;
};
BackwardWork Differentiate(const OperatorGraph& graph, const Binding& sizes, OpId op,
                           const TableGradient& table = {});

KernelList ForwardWork(const OperatorGraph& graph, const Binding& sizes, OpId op);

// Bytes of activations that the repeated block keeps from forward to backward, each tensor once.
// What enters the block belongs to it, what leaves it to the next.
struct Stash {
  Bytes whole;      // all of it
  Bytes attention;  // of this, written within the attention core (selective recomputation)
  Bytes input;      // of this, what enters the block (full recomputation keeps that alone)
  Bytes fused;      // of this, outputs of fused attention
};
// `needs_input`: whether a GEMM's weights, or adapters beside them, are trained, for which its
// input is kept; null: all are.
Stash StashOfBlock(const OperatorGraph& graph, const Binding& sizes,
                   const std::function<bool(const GraphOp&)>& needs_input = nullptr);

// Whether each tensor is kept by an operator of the block for its backward pass; `needs_input` as
// above.
std::vector<bool> KeptOfBlock(const OperatorGraph& graph,
                              const std::function<bool(const GraphOp&)>& needs_input = nullptr);

// What of the block runs again backward.
struct PartialRecomputation {
  std::vector<bool> again;  // by operator
  std::vector<bool> kept;   // by tensor
};

// How an operator is recomputed. A number from 0: with all others of that number, from what they
// are given by others; what these give to others is kept where those need it (checkpoints as
// PyTorch has them). kOutputs: what it gives is dropped once all have read it, and made again for
// their backward passes (Megatron Core, tensor_parallel/random.py, CheckpointWithoutOutput).
constexpr int kNotAgain = -2, kOutputs = -1;
PartialRecomputation RunPartsAgain(
    const OperatorGraph& graph, const std::function<int(const GraphOp&)>& part_of,
    const std::function<bool(const GraphOp&)>& needs_input = nullptr);

// Norms, rotary embedding, gated activations and GEMMs up from latents run again backward, so that
// what they gave is not kept, but what they were given (DeepSeek-V3, sections 3.2.3 and 3.3.3).
PartialRecomputation RunLightAgain(
    const OperatorGraph& graph, const std::function<bool(const GraphOp&)>& needs_input = nullptr);

// Of the block's GEMMs, run one by one in order (each output and GraphOp::parts is one), every
// second, beginning with the first.
struct AlternateGemms {
  Bytes outputs;
  Bytes needed;                // of this, what anything that the backward pass reads follows from
  std::vector<double> share;   // by operator: of its outputs
  std::vector<bool> followed;  // by tensor: whether anything that the backward pass reads follows
};
AlternateGemms EverySecondGemm(const OperatorGraph& graph, const Binding& sizes);

// Elements of the weights that the block (or the rest) reads first.
int64_t Parameters(const OperatorGraph& graph, const Binding& sizes, bool in_block);

}  // namespace foretrace
