#pragma once
// The device work of an operator: its kernels, each with FLOP, bytes and the geometry that the
// timing models look at. FLOP and bytes of every operator are derived here and nowhere else.

#include <cstdint>
#include <string_view>

#include "absl/container/inlined_vector.h"
#include "simulator/base/units.h"
#include "simulator/cost/operator/operator.h"

namespace foretrace {

// What kind of kernel it is to a timing model.
enum class KernelKind : uint8_t {
  kGemm,
  kBatchedGemm,
  kConvolution,
  kAttention,
  kLayerNorm,
  kBatchNorm,
  kSoftmax,
  kDropout,
  kElementwise,
  kReduction,
  kConcat,
  kCopy,
  kTranspose,
  kFill,
  kMemcpy,
  kIndex,
  kPooling,
  kOptimizer,
  kEmbedding,
  kOther,
  kCount,
};
std::string_view Name(KernelKind kind);
// kOther for an unknown name.
KernelKind ParseKernelKind(std::string_view name);

// Where a softmax keeps a row between its passes: by its columns, as the framework chooses; in the
// registers of a warp; in those of a block; in none, so that each pass loads it.
enum class RowPlace : uint8_t { kByColumns, kWarp, kBlock, kMemory };

// Bytes count the least traffic of the algorithm: each operand read once and each result written
// once a pass; caching and re-reads are the timing model's business. A multiply-add is 2 FLOP.
struct KernelWork {
  KernelKind kind = KernelKind::kOther;
  Direction pass = Direction::kForward;
  DType dtype = DType::kFloat32;
  Flop flop;
  Bytes read;
  Bytes written;
  // Matrix view of GEMM-like kernels (of a convolution, its implicit GEMM: m = n oh ow,
  // n = k, k = c r s / groups, batch = groups). 0 for others.
  int64_t batch = 0, m = 0, n = 0, k = 0;
  // Elements that a GEMM, an element-wise kernel or a norm of a serving engine loads at once, or a
  // thread of a reduction before it waits; 0: as its framework does.
  int64_t load_elements = 0;
  // Of a GEMM's two operands, how many lie along the result's sides, not along what is summed over.
  int across_reduction = 0;
  bool adds_bias = false;  // a GEMM, to its results
  // Kernels for Ampere, whose warps issue the tensor instructions one by one.
  bool by_warps = false;
  // Parts of a GEMM's reduction are scaled each by itself (LinearOp::block_scaled).
  bool block_scaled = false;
  // Row view of row-wise kernels: layer norm, softmax, batch norm (rows = channels), reductions.
  int64_t rows = 0, cols = 0;
  Bytes read_again;                           // by later passes over a row, where no cache kept it
  bool mean_square = false;                   // of a norm: all that it takes of a row, in one sum
  RowPlace row_place = RowPlace::kByColumns;  // of a softmax
  bool across_rows = false;                   // reductions down the columns of a row-major matrix
  // Filter and image geometry of convolutions.
  int64_t filter_h = 0, filter_w = 0, stride = 0, image = 0, channels = 0;
  int64_t images = 0;
  bool weight_gradient = false;  // of a convolution: m = k / groups, n = c r s, k = n oh ow
  CopyDirection direction = CopyDirection::kDeviceToDevice;  // memcpy
  bool pinned = true;                                        // memcpy
  // Kernels that share this work evenly: FLOP and bytes are totals over them.
  int64_t launches = 1;
  // Tensors of a concatenation that do not lie in one piece, among which its blocks look for
  // theirs; 0: each lies in one piece.
  int64_t parts = 0;
  // Integer instructions of all threads, of kernels that move elements one at a time; 0: in
  // vectors, which takes next to none.
  double instructions = 0;
  // Loads of a thread of which each waits for the one before, of a kernel whose code and arguments
  // no cache holds; 0: as in a benchmark's loop.
  int64_t trips = 0;
  bool trips_are_steps = false;  // between which threads meet, so that memory idles meanwhile
  // Chunks of a sequence that blocks of a GEMM go through one after the other (BatchedMatmulOp).
  int64_t turns = 0;
  // Of what streaming kernels reach of the memory's bandwidth, by how blocks are spread over it.
  double bandwidth_share = 1;
  // Accesses of single threads, that those of their neighbours do not go with; 0: none, or not
  // known.
  int64_t scattered = 0;
  // Thread blocks, of kernels with so many that handing them out may take longest; 0: few.
  int64_t blocks = 0;

  // Saturates at 2^62, like its parts.
  int64_t total_bytes() const {
    constexpr int64_t kMost = int64_t{1} << 62;
    return read.count() > kMost - written.count() ? kMost : read.count() + written.count();
  }
};

using KernelList = absl::InlinedVector<KernelWork, 4>;

// The kernels that the operator runs, in order of issue. Sizes may come from untrusted traces:
// products saturate at 2^62 instead of overflowing; a non-positive size gives zero work.
KernelList Kernels(const OperatorCall& op);

// The same GEMM of operands of which so many, at most 2, lie along the result's sides. Of both,
// rows lie along those sides alone: however many are summed over, they are loaded as widely as the
// sides allow.
KernelWork AcrossReduction(KernelWork gemm, int operands);

// Sums over Kernels(op), launches included.
struct OperatorWork {
  Flop flop;
  Bytes bytes;
  int64_t launches = 0;
};
OperatorWork TotalWork(const OperatorCall& op);

// The cast of a GEMM's operand from `dtype` to 8 bits, by one scale that is known or, block_scaled,
// by one that it finds for every 128 elements.
KernelWork CastToFloat8(int64_t elements, DType dtype, bool block_scaled);

// a * b * ..., at least 0 and at most 2^62.
int64_t SaturatingProduct(std::initializer_list<int64_t> factors);

}  // namespace foretrace
