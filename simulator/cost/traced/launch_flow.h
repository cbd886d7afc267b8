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
#include "simulator/cost/traced/launch_place.h"
#include "simulator/cost/traced/moved_elements.h"
#include "simulator/cost/traced/weight_sizes.h"
#include "simulator/trace/rank_trace.h"

namespace foretrace {

// The key of the highest count, the least of several; 0: there is none.
int64_t Most(const std::map<int64_t, int64_t>& counts);

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
  // Rows of the table of words, which a loss has as many classes as; 0: not known.
  int64_t words() const { return words_; }
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
  void JoinParts();
  bool SamePart(size_t a, size_t b) const;
  void FindCopies();
  void FindPasses();
  bool IsWeightGradient(size_t i) const;
  void FindMeans();
  void FindRows();
  void FindTypical();
  bool IsWidthOfRows(int64_t width) const;
  void FindWords(const GpuPeaks& device);
  int64_t Samples() const;

  const TraceStore& store_;
  const RankTrace& rank_;
  MovedElements moved_;
  std::vector<LaunchPlace> places_;
  Bytes element_;
  WeightSizes weights_;
  std::vector<bool> backward_;                     // by place
  absl::flat_hash_map<uint32_t, int64_t> copied_;  // by kernel
  int64_t rows_ = 0, columns_ = 0, words_ = 0, sequence_ = 0;
  absl::flat_hash_set<int64_t> norms_;  // columns
};

}  // namespace foretrace
