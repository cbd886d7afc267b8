#pragma once
// What a device kernel's own name says to a timing model.

#include <cstdint>
#include <optional>
#include <string_view>

#include "simulator/cost/kernel/gpu_peaks.h"

namespace foretrace {

// The part a kernel plays among those of its operator.
enum class KernelRole : uint8_t {
  kUnknown,
  kMatmul,       // a GEMM, or a convolution's main kernel
  kTransform,    // data layout and transforms around a main kernel (winograd, NCHW to NHWC)
  kSplitReduce,  // adds the parts of a split reduction
  kReduction,
  kElementwise,       // contiguous, several elements at a load
  kStrided,           // element-wise over strided memory
  kStridedConverted,  // the same over types that are looked up at run time
  kConverted,         // element-wise over types that are looked up at run time
  kConcat,            // concatenation, element by element
  kGather,            // element-wise through indices
  kEmbedding,
  kSort,  // sorting and scanning of indices
};

// Of an implicit GEMM; 0: not known.
struct NamedTile {
  int64_t rows = 0, cols = 0, depth = 0;
  bool known() const { return rows > 0; }
};

struct KernelTraits {
  KernelRole role = KernelRole::kUnknown;
  // Set where the name tells (GEMM kernels name their instruction).
  Precision precision = Precision::kFloat32;
  bool precision_known = false;
  // Elements that a matrix kernel loads at once ("align4", "ldg8"); 0: the name does not say.
  int64_t load_elements = 0;
  // Elements that a thread takes one after the other, of a kernel that strides or looks types up;
  // 0: side by side.
  int64_t elements_in_turn = 0;
  // Bytes of an element that is moved whatever it is ("OpaqueType<2u>"); 0: the name does not say.
  int64_t element_bytes = 0;
  // Of a convolution on tensor cores, or of rocBLAS's and hipBLASLt's kernels: the tile of its
  // implicit GEMM, and whether warps issue its instructions, as on Ampere.
  NamedTile tile;
  bool by_warps = false;
  // FlashAttention-2's kernels, written for Ampere, and whether they mask later keys.
  bool flash_attention_2 = false;
  bool causal = false;
};

// Of a matrix kernel: cuDNN's and cuBLAS's "..._tilesize128x128x64_stage3_...", CUTLASS's
// "..._256x64_32x4_nhwc_align8", cuBLAS's "nvjet_..._128x256_64x4_...", Tensile's
// "Cijk_..._MT256x160x64_...". Not known where the name states none.
NamedTile StatedTile(std::string_view name);

// Linear in the name's length; names come from traces and may be anything.
KernelTraits TraitsOfKernel(std::string_view name);

// Which of a layer's gradients a library's kernel makes, whose matrices are column-major: of
// weights neither operand lies along the reduction ("nt"), of the input one does ("nn"). nullopt:
// its name does not say.
std::optional<bool> SumsOverRows(std::string_view name);

}  // namespace foretrace
