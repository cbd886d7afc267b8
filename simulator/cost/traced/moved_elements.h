#pragma once
// Elements that the element-wise kernels of a rank move, by their launches.

#include <cstdint>
#include <span>
#include <vector>

#include "simulator/cost/kernel/launched_kernels.h"
#include "simulator/trace/rank_trace.h"

namespace foretrace {

// How many elements a thread of PyTorch's contiguous element-wise kernels takes: four
// (aten/src/ATen/native/cuda/thread_constants.h), since 2.7 eight (CUDALoops.cuh,
// elems_per_thread). Which of the two a recording shows, names of kernels tell that came with the
// latter.
int64_t ElementsOfThread(const TraceStore& store, const RankTrace& rank);

// How many elements the element-wise kernels beside a kernel in its stream work on: what it is
// given, or gives on.
class MovedElements {
 public:
  MovedElements(const TraceStore& store, const RankTrace& rank, const GpuPeaks& device,
                int64_t thread_elements);
  // The nearest's, or of sums and pools, which change the size, the largest's; 0: none is near.
  int64_t Near(NodeIndex kernel, KernelKind kind) const;

  // Nothing beside that kernel is given what it moves.
  void Forget(NodeIndex kernel) { elements_[position_[kernel.value]] = 0; }
  int64_t of(NodeIndex kernel) const { return elements_[position_[kernel.value]]; }
  // Kernels by stream, then by start, and what each of them moves; 0: it moves no elements.
  std::span<const NodeIndex> order() const { return order_; }
  std::span<const int64_t> elements() const { return elements_; }

 private:
  std::vector<NodeIndex> order_;
  std::vector<int64_t> elements_;   // by stream, then by start
  std::vector<uint32_t> lane_;      // of the same
  std::vector<uint32_t> position_;  // by node
};

}  // namespace foretrace
