#pragma once
// Operators by meaning: what a framework call or a workload layer computes, on which shapes. The
// only place that derives kernels, FLOP and bytes from shapes is Kernels() in kernel_work.h.

#include <cstdint>
#include <variant>

#include "simulator/base/dtype.h"

namespace foretrace {

enum class Direction : uint8_t { kForward, kBackward, kCount };

// y[m,n] = x[m,k] W[k,n] (+ bias[n]). `weight_gradient_only` and `input_gradient_only` restrict the
// backward pass, for a first layer or frozen weights.
struct LinearOp {
  int64_t m = 0, n = 0, k = 0;
  bool bias = false;
  bool needs_input_gradient = true;
  bool needs_weight_gradient = true;
  // Operands of 8 bits with a scale for every block of 128 of them, by which the parts of the
  // reduction are multiplied before they are added up.
  bool block_scaled = false;
};

// c[b,m,n] = a[b,m,k] b[b,k,n].
struct BatchedMatmulOp {
  int64_t b = 0, m = 0, n = 0, k = 0;
  // Bytes that its kernel moves besides, forward: of operands and results of other types than the
  // call's, and of what is fused with it. Negative: operands are smaller than those of the call's
  // type.
  int64_t read_beside = 0, written_beside = 0;
  // Multiply-adds of other GEMMs of the same kernel, for each of the batch, forward; chunks of a
  // sequence that its blocks go through one after the other (0: none waits for another).
  int64_t products_beside = 0, turns = 0;
};

// NCHW input [n,c,h,w], filters [k,c/groups,r,s], output [n,k,oh,ow].
struct Conv2dOp {
  int64_t n = 0, c = 0, h = 0, w = 0, k = 0, r = 1, s = 1, oh = 0, ow = 0, groups = 1;
  bool bias = false;
  bool needs_input_gradient = true;
  bool needs_weight_gradient = true;
};
// oh and ow by the usual rule floor((h + 2 pad - dilation (r - 1) - 1) / stride) + 1; stride must
// be positive. Not positive when the filter does not fit.
int64_t ConvOutputSize(int64_t size, int64_t filter, int64_t stride, int64_t pad, int64_t dilation);

// Scaled dot-product attention; q [b,heads,sq,d], k and v [b,kv_heads,skv,d]. `flash`: one fused
// kernel that never writes the scores; otherwise matmul, softmax, matmul.
struct AttentionOp {
  int64_t b = 0, heads = 0, kv_heads = 0, sq = 0, skv = 0, d = 0;
  bool causal = false;
  bool flash = true;
};

// Normalisation or softmax over the last dimension of [rows, cols].
struct LayerNormOp {
  int64_t rows = 0, cols = 0;
};
struct SoftmaxOp {
  int64_t rows = 0, cols = 0;
  bool logarithm = false;  // of it
  // Its gradient is one kernel, as those of fused attention are; PyTorch's multiplies both of its
  // tensors first, but of a logarithm.
  bool one_kernel = false;
};
struct BatchNormOp {
  int64_t n = 0, c = 0, h = 1, w = 1;
};
struct DropoutOp {
  int64_t elements = 0;
};

// A point-wise operator, or a fused chain of them: every operand is read once and every result
// written once. `read_elements` counts all operands with broadcast ones at their own size.
struct ElementwiseOp {
  int64_t elements = 0;  // of one result
  int64_t read_elements = 0;
  int64_t outputs = 1;
  double flop_per_element = 1;
  DType output_dtype = DType::kUnknown;  // unknown: as the operands
};

// `rows` results, each over `cols` elements. `across_rows`: the reduced dimension is the outer one
// (bias gradients), so that neighbouring threads work on neighbouring results.
struct ReductionOp {
  int64_t rows = 0, cols = 0;
  bool across_rows = false;
};
struct ConcatOp {
  int64_t elements = 0, parts = 0;
};
// Device copy; `strided`: source and destination walk memory in different orders (transpose,
// permute, contiguous() of a view).
struct CopyOp {
  int64_t elements = 0;
  bool strided = false;
  DType output_dtype = DType::kUnknown;
};
struct FillOp {
  int64_t elements = 0;
};

enum class CopyDirection : uint8_t {
  kHostToDevice,
  kDeviceToHost,
  kDeviceToDevice,
  kHostToHost,
  kCount
};
struct MemcpyOp {
  int64_t bytes = 0;
  CopyDirection direction = CopyDirection::kDeviceToDevice;
  bool pinned = true;
};

// Gather or scatter of `elements` values through 8-byte indices, `index_count` of them; tril, triu
// and masks have index_count 0. Backward adds into the source (sorted, or with atomics).
struct IndexOp {
  int64_t elements = 0, index_count = 0;
  int64_t source_elements = 0;  // of the tensor gathered from; backward clears as much
};
struct PoolOp {
  int64_t input_elements = 0, output_elements = 0, window = 1;
  bool saves_indices = true;
};

enum class OptimizerKind : uint8_t { kSgd, kSgdMomentum, kAdam, kAdagrad, kCount };
// kFused: one pass; kForeach and kLoop: one kernel for each elementary step, over chunks of many
// tensors or tensor by tensor.
enum class OptimizerImpl : uint8_t { kFused, kForeach, kLoop, kCount };
struct OptimizerOp {
  int64_t params = 0, tensors = 1;
  OptimizerKind kind = OptimizerKind::kSgd;
  OptimizerImpl impl = OptimizerImpl::kForeach;
};

// Pooled lookups of `lookups` rows of `dim` elements in all, into `bags` output rows (batch times
// tables); `unique_rows` distinct rows are touched (0: unknown, taken as `lookups`).
struct EmbeddingOp {
  int64_t lookups = 0, bags = 0, dim = 0, unique_rows = 0, tables = 1;
  int64_t rows = 0;  // of all tables; 0: unknown
  OptimizerKind optimizer = OptimizerKind::kAdagrad;
  bool rowwise = true;       // one optimizer state value a row instead of one an element
  bool fused_update = true;  // backward applies the optimizer; otherwise it writes gradients
  bool batched = false;      // FBGEMM's table-batched kernels; otherwise the framework's own
};

// An operator of which only the tensors are known: reads its arguments and writes its results once.
struct OpaqueOp {
  int64_t read_bytes = 0, written_bytes = 0;
};

struct OperatorCall {
  using Shape =
      std::variant<LinearOp, BatchedMatmulOp, Conv2dOp, AttentionOp, LayerNormOp, SoftmaxOp,
                   BatchNormOp, DropoutOp, ElementwiseOp, ReductionOp, ConcatOp, CopyOp, FillOp,
                   MemcpyOp, IndexOp, PoolOp, OptimizerOp, EmbeddingOp, OpaqueOp>;
  Shape shape;
  DType dtype = DType::kFloat32;
  Direction pass = Direction::kForward;
};

}  // namespace foretrace
