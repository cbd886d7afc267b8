#pragma once
// What the launch of one kernel says of the tensors that it is given and makes.

#include <cstdint>
#include <string_view>

#include "simulator/cost/kernel/gpu_peaks.h"
#include "simulator/trace/rank_trace.h"

namespace foretrace {

struct LaunchPlace {
  // Elements, of an element-wise one, complex ones twice, of all parts where a call passes over a
  // tensor in several; 0: another, or not known.
  int64_t moved = 0;
  int64_t rounded = 0;   // by how many at most that is more than there are
  size_t parts = 1;      // launches, of which it is one
  int64_t operands = 0;  // that it reads, each as large
  // Of a norm or a softmax: a block each. Of means of rows, the first step of a norm: as many as a
  // block has lines of threads, of which the last has not all.
  int64_t rows = 0, rows_of_block = 1;
  // Of a batch norm, and by how many at most that is more than there are.
  int64_t channels = 0, channels_rounded = 0;
  int64_t gathered = 0;    // rows of a table
  bool scores = false;     // rows of scores: a softmax that is no loss
  bool classes = false;    // rows of logits: a loss's softmax
  bool copies = false;     // casts are copies
  bool quantises = false;  // to 8 bits
  bool gemm = false;       // or a convolution
  // Of a GEMM: tiles of a batch, and results of one; 0: not known.
  double tiles = 0;
  int64_t tile_rows = 0, tile_cols = 0;
  int64_t batch = 0;  // more than a reduction has parts; 0: not known
  bool attention = false;
  bool gathers = false;  // copies a weight that is gathered from others

  // Whether a tensor of so many elements may be what it moves.
  bool Moves(int64_t elements) const { return elements <= moved && elements > moved - rounded; }
  // Columns of what it moves in so many rows, where several may be a round number; 0: that has no
  // such rows.
  int64_t Columns(int64_t rows_of_it) const;
  // Results of a batch, with what tiles have beyond.
  double results() const {
    return tiles * static_cast<double>(tile_rows) * static_cast<double>(tile_cols);
  }
  // Whether m x n results may be what its tiles hold; true where those are not known.
  bool Holds(int64_t m, int64_t n) const;
  // Columns of results with so many rows; 0: not known.
  int64_t Width(int64_t m) const;
};

// Whether a call or a kernel says that it is of the backward pass.
bool NamesGradient(std::string_view name);

// Of a kernel that moves so many elements, as far as is known (MovedElements).
LaunchPlace PlaceOf(const TraceStore& store, const RankTrace& rank, NodeIndex kernel, int64_t moved,
                    const GpuPeaks& device);

}  // namespace foretrace
