#pragma once
// What the launches of a rank's kernels say of the tensors that flow through them.

#include <cstdint>
#include <map>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "simulator/cost/kernel/gpu_peaks.h"
#include "simulator/cost/traced/moved_elements.h"
#include "simulator/cost/traced/weight_sizes.h"
#include "simulator/trace/rank_trace.h"

namespace foretrace {

// The key of the highest count, the least of several; 0: there is none.
int64_t Most(const std::map<int64_t, int64_t>& counts);

// Of one kernel.
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

// Kernels are counted by stream, then by start.
class LaunchFlow {
 public:
  // Keeps references to `store` and `rank`.
  LaunchFlow(const TraceStore& store, const RankTrace& rank, const GpuPeaks& device);

  std::span<const NodeIndex> order() const { return moved_.order(); }
  const LaunchPlace& at(size_t i) const { return places_[i]; }
  // Whether the last kernel of the stream that only one pass has is one of gradients: by its name,
  // or a GEMM that sums over rows.
  bool backward(size_t i) const { return backward_[i]; }
  bool SameStream(size_t a, size_t b) const {
    return rank_.lane(order()[a]) == rank_.lane(order()[b]);
  }
  // Nearest first, within so many kernels of the same stream.
  std::vector<size_t> Before(size_t i, size_t kernels) const;
  std::vector<size_t> Behind(size_t i, size_t kernels) const;
  // The rows of the nearest norms or softmax of logits before and behind, else of most; empty:
  // there is none.
  std::vector<int64_t> RowsNear(size_t i) const;
  // Of most norms; 0: there is none.
  int64_t rows() const { return rows_; }
  // Whether a norm has so many columns; true where there is no norm.
  bool HasNormOf(int64_t columns) const { return norms_.empty() || norms_.contains(columns); }
  // Columns of what most norms of most rows are given; 0: not known.
  int64_t columns() const { return columns_; }
  // Tokens of a sequence, by the rows of what positions look up; 0: not known.
  int64_t sequence() const { return sequence_; }
  // Of what most matrix kernels compute in.
  Bytes element() const { return element_; }
  // What copies of weights say.
  const WeightSizes& weights() const { return weights_; }
  // Elements of a kernel that passes on what its neighbours move; 0: not known.
  int64_t Near(size_t i) const { return moved_.Near(order()[i], KernelKind::kLayerNorm); }
  // Bytes that the first copy from the host brought since the kernel before, of whatever stream;
  // 0: there was none.
  int64_t Copied(size_t i) const;
  // What it rests on, of the same rank.
  MovedElements TakeMoved() && { return std::move(moved_); }
  std::string_view name(size_t i) const { return store_.name(rank_, order()[i]); }

 private:
  LaunchPlace PlaceOf(NodeIndex node, int64_t moved, const GpuPeaks& device) const;
  void JoinParts();
  bool SamePart(size_t a, size_t b) const;
  void FindCopies();
  void FindPasses();
  bool IsWeightGradient(size_t i) const;
  void FindMeans();
  void FindRows();
  void FindTypical();
  int64_t Samples() const;

  const TraceStore& store_;
  const RankTrace& rank_;
  MovedElements moved_;
  std::vector<LaunchPlace> places_;
  Bytes element_;
  WeightSizes weights_;
  std::vector<bool> backward_;                     // by place
  absl::flat_hash_map<uint32_t, int64_t> copied_;  // by kernel
  int64_t rows_ = 0, columns_ = 0, sequence_ = 0;
  absl::flat_hash_set<int64_t> norms_;  // columns
};

}  // namespace foretrace
