#pragma once
// The gated delta rule (Gated DeltaNet, 2024, arXiv 2412.06464, section 3.3) as the calls of the
// kernels that software has for it: fla, ops/gated_delta_rule/chunk.py, and what Megatron Core runs
// around it (ssm/gated_delta_net.py). Of a StateScan groups are heads of keys and queries, each
// with `state` elements, whose heads of values are the `heads`: together `width` elements.

#include "simulator/graph/state_scan.h"

namespace foretrace {

// Forward: queries, keys and values into the order that the convolution takes, it with its
// activation, each of them put together, queries and keys normalised by head and repeated for every
// head of values, the gate put together; decays and step sizes; within chunks sums of decays and
// the inverse of what keys share (counted whole, though it is of a triangle); keys and values
// through that inverse; states from chunk to chunk, one after the other, with what each takes off
// the values; results. Backward keys and values through the inverse and the states again, then
// gradients of values within chunks, of states from chunk to chunk, of queries, keys and what the
// inverse made, and through the inverse; then of what lies before, in reverse.
CallList DeltaCalls(const StateScan& scan, Direction pass);

// As vLLM has it (model_executor/layers/mamba/gdn/qwen_gdn_linear_attn.py,
// layers/fla/ops/chunk.py): heads of values share their queries and keys where they lie; decays and
// step sizes in one kernel. The gate is read by the norm behind, which is counted with the results.
// States are made in 32 bits and copied as `PromptScan` says.
CallList DeltaPromptCalls(const StateScan& scan, const PromptScan& prompts);

// What a GEMM of these takes at least, in seconds; 0 as LeastSecondsOfDecays says. Its
// multiply-adds go at the rate of a state-space scan's. States go from chunk to chunk one after the
// other: 1.2 us a chunk forward, 2.3 backward. Both are of an H200, with chunks of 64 tokens and
// keys and values of 128 elements, from the rows with the fewest heads of FlashQLA's
// benchmark/benchmark_results_H200.txt (fla 0.5.1: 8 heads of values, 32,768 tokens, 902 us; 4
// heads, backward, 2,311 us), as which GB200's times are within a third. Of its other rows
// tests/unit/graph/delta_rule_test.cpp has some. Other chunks and keys are supposed to take longer
// as their product is larger, which nothing published shows.
double LeastSecondsOfDelta(const StateScan& scan, const KernelWork& work, int32_t multiprocessors);

}  // namespace foretrace
