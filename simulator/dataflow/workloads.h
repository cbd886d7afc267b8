#pragma once
// The published workloads as graphs (docs/dataflow.md; sizes: traces/workloads/studies/).

#include <cstdint>

#include "simulator/dataflow/workload.h"

namespace foretrace::dataflow {

// A GPT layer of 18 forward kernels, and 23 backward where it trains (DFModel section VI; residual
// additions, norms, dropouts and the loss are kernels of their own).
struct TransformerSizes {
  int64_t hidden = 0, heads = 0, head_size = 0, sequence = 0, layers = 1;
  double batch = 1;
  bool train = true;
  // Positions that each of `sequence` attends to, where those before them are in a cache (a decode
  // step has a sequence of 1); 0: the sequence's own.
  int64_t keys = 0;
  int64_t ffn = 0;  // 0: 4 x hidden
  // Experts instead of one FFN, of which each position goes to `top_k`, shared evenly; 0: none.
  int64_t experts = 0, top_k = 1;
  // One kernel from queries, keys and values to the context, which keeps scores on the chip
  // (FlashAttention), instead of four; and one backward. Without dropout between them.
  bool fused_attention = false;
  // Of the output layer, which then follows the layers; 0: it is left out, as published.
  int64_t vocabulary = 0;
};
Workload MakeTransformer(const TransformerSizes& sizes);

// A block of a selective state-space model (Gu and Dao, 2023, Mamba, section 3.4 and algorithm 2):
// projection to twice the inner width, short convolution, scan along the sequence, gate, projection
// back. The scan goes along the whole sequence on a chip and keeps its state there.
struct StateSpaceSizes {
  int64_t hidden = 0, sequence = 0, layers = 1;
  int64_t inner = 0;   // 0: 2 x hidden
  int64_t state = 16;  // of a channel
  int64_t rank = 0;    // of the step sizes; 0: hidden / 16
  int64_t taps = 4;    // of the convolution
  double batch = 1;
  bool train = true;
};
Workload MakeStateSpace(const StateSpaceSizes& sizes);

// One micro-batch of one chip: MLPs replicated, tables spread over all chips, so that pooled rows
// are exchanged behind the last bottom MLP and their gradients before it (paper section VI-C2).
struct DlrmSizes {
  int64_t bottom_layers = 0, top_layers = 0, width = 0, rows = 0;  // rows: of a micro-batch
  int64_t tables = 0, pooled = 1, embedding = 0;
  double micro_batches = 1;
};
Workload MakeDlrm(const DlrmSizes& sizes);

// LU of n x n in blocks of b on a grid of chips: `iterations` of the n / b trailing updates.
struct HplSizes {
  int64_t n = 0, block = 0, iterations = 0, grid_rows = 1, grid_columns = 1;
};
Workload MakeHpl(const HplSizes& sizes);

// A transform of `points` = m x n in two steps of GEMMs with k radix terms; the transposition
// between them is an all-to-all.
struct FftSizes {
  int64_t m = 0, n = 0, radix = 0;
  int64_t chips = 1;
};
Workload MakeFft(const FftSizes& sizes);

}  // namespace foretrace::dataflow
