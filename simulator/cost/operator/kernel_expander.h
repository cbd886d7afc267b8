#pragma once
// One operator as its kernels; kernel_work.h is what others use.

#include <algorithm>
#include <cstdint>
#include <initializer_list>

#include "simulator/cost/operator/kernel_work.h"
#include "simulator/cost/operator/operator.h"

namespace foretrace {

inline constexpr int64_t kStatisticBytes = 4;  // means and deviations are fp32 whatever the dtype
inline constexpr int64_t kIndexBytes = 8;

// Non-negative terms, at most 2^62 in all.
int64_t SaturatingSum(std::initializer_list<int64_t> terms);

// The product of factors, those below 0 as 0.
inline double RealProduct(std::initializer_list<int64_t> factors) {
  double product = 1;
  for (int64_t f : factors) product *= static_cast<double>(std::max<int64_t>(f, 0));
  return product;
}

// Each overload of operator() is one shape of operator: GEMMs, convolutions and attention in
// kernel_expander_gemms.cpp, all else in kernel_expander.cpp.
class KernelExpander {
 public:
  KernelExpander(DType dtype, Direction pass);

  KernelList operator()(const LinearOp& op) const;
  KernelList operator()(const BatchedMatmulOp& op) const;
  KernelList operator()(const Conv2dOp& op) const;
  KernelList operator()(const AttentionOp& op) const;
  KernelList operator()(const LayerNormOp& op) const;
  KernelList operator()(const SoftmaxOp& op) const;
  KernelList operator()(const BatchNormOp& op) const;
  KernelList operator()(const DropoutOp& op) const;
  KernelList operator()(const ElementwiseOp& op) const;
  KernelList operator()(const ReductionOp& op) const;
  KernelList operator()(const ConcatOp& op) const;
  KernelList operator()(const CopyOp& op) const;
  KernelList operator()(const FillOp& op) const;
  KernelList operator()(const MemcpyOp& op) const;
  KernelList operator()(const IndexOp& op) const;
  KernelList operator()(const PoolOp& op) const;
  KernelList operator()(const OpaqueOp& op) const;
  KernelList operator()(const OptimizerOp& op) const;
  KernelList operator()(const EmbeddingOp& op) const;

 private:
  enum class ConvPass { kForward, kInputGradient, kWeightGradient };

  int64_t Bytes_(int64_t elements) const { return SaturatingProduct({elements, size_}); }
  KernelWork Flat(KernelKind kind, double flop, int64_t read, int64_t written) const;
  KernelWork Rows(KernelKind kind, int64_t rows, int64_t cols, double flop_per_element,
                  int64_t read, int64_t written) const;
  // `rows` sums of `cols` elements.
  KernelWork Reduction(int64_t rows, int64_t cols) const;
  // Sums down the columns of a row-major matrix: `columns` sums of `rows` elements.
  KernelWork ColumnSums(int64_t columns, int64_t rows) const;
  KernelWork Gemm(KernelKind kind, int64_t b, int64_t m, int64_t n, int64_t k, bool bias) const;
  // The forward pass of an IndexOp with indices.
  void AsGather(const IndexOp& op, KernelWork& work) const;
  KernelWork Convolution(const Conv2dOp& op, ConvPass pass) const;
  KernelList FlashAttention(const AttentionOp& op) const;
  KernelList PlainAttention(const AttentionOp& op) const;

  DType dtype_;
  int64_t size_;  // bytes of an element
  Direction pass_;
};

}  // namespace foretrace
