#pragma once
// What the name of a kernel says of its part in a convolution (cuDNN's, and what cuDNN borrows of
// cuBLAS and CUTLASS).

#include <cstdint>
#include <string_view>

#include "simulator/cost/kernel/gemm_block.h"
#include "simulator/cost/operator/kernel_work.h"

namespace foretrace {

enum class ConvolutionPart : uint8_t {
  kUnknown,
  // Main kernels.
  kEngine,       // cuDNN's own, on multiprocessors: dgrad_engine, wgrad_alg0_engine, ...
  kBlocks,       // xmma's on multiprocessors, of a stated block
  kTile,         // on tensor cores, of a stated tile
  kFourierGemm,  // complex products of transformed tiles
  // Around them.
  kLayout,            // between channels innermost and columns innermost
  kScale,             // what is added to, times a factor or cleared
  kPad,               // channels added up to what loads take
  kWinogradData,      // an image to tiles
  kWinogradDelta,     // the results' gradient to tiles
  kWinogradFilter,    // filters to tiles, or tiles to the filters' gradient
  kWinogradResult,    // tiles to an image
  kFourierTransform,  // between tiles and frequencies
  kSumOfImages,       // of the filters' gradients that images have each
  kSumOfParts,        // of a split reduction
  kWorkspace,         // a few values for the kernel that follows
};

// Which gradient a kernel computes; kAny: its name does not say one.
enum class ConvolutionPass : uint8_t { kAny, kInputGradient, kWeightGradient };

struct ConvolutionKernel {
  ConvolutionPart part = ConvolutionPart::kUnknown;
  ConvolutionPass pass = ConvolutionPass::kAny;
  // Of results, pixels (of filters' gradients filters) by the other side; kEngine, kBlocks, kTile,
  // kFourierGemm.
  GemmBlock block;
  bool into_layout = false;    // kLayout: of an operand, not of a result
  bool winograd = false;       // a transform of Winograd's algorithm for the filters' gradient
  bool multiplies = false;     // one of many products of a transform
  bool scattered = false;      // addresses of single pixels, at a stride
  bool channels_last = false;  // operands with their channels innermost, loaded by 16 bytes
  bool by_warps = false;       // for Ampere
  bool narrow = false;         // few columns of a tile slow a group of warps down
  bool cut_up = false;         // tiles' reductions, so that multiprocessors end alike
  Precision precision = Precision::kFloat32;  // that its name states
  int64_t element_bytes = 4;                  // of what a transform moves

  bool main() const {
    return part >= ConvolutionPart::kEngine && part <= ConvolutionPart::kFourierGemm;
  }
};

// Linear in the name's length; names come from traces and may be anything.
ConvolutionKernel ConvolutionKernelOf(std::string_view name);

}  // namespace foretrace
