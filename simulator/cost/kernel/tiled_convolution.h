#pragma once
// Convolutions on tensor cores whose kernel names its tile, and what moves their operands between
// the framework's layout and theirs.

#include <cstdint>

#include "simulator/cost/kernel/gpu_peaks.h"
#include "simulator/cost/kernel/kernel_names.h"
#include "simulator/trace/rank_trace.h"

namespace foretrace {

// An implicit GEMM over images and filters with their channels innermost (CUTLASS,
// media/docs/implicit_gemm_convolution.md): a step of the reduction takes one position of the
// filter and as many channels as the tile is deep, so that fewer channels than that leave the rest
// of the step empty.
struct TiledGemm {
  NamedTile tile;
  double batch = 1, m = 1, n = 1, k = 1;
  double positions = 1;  // of the filter, along the reduction
  double bytes = 0;
  double reached = 1;       // of the rate of GEMMs by such tiles
  bool by_warps = false;    // for Ampere
  bool scattered = false;   // operands by the addresses of single pixels, at a stride
  bool transposed = false;  // operands that do not lie along the reduction
  bool narrow = false;      // few columns of a tile slow a group of warps down (xmma's kernels)
  bool shared = false;      // tiles' reductions are cut up, so that multiprocessors end alike
};
double TiledGemmUs(const GpuPeaks& device, Precision precision, const TiledGemm& gemm);

// A transform between images of innermost columns and of innermost channels: blocks of 32 pixels by
// 32 channels through shared memory, present or not. `waves`: of blocks that the device holds at
// once; `present`: share of the pixels.
double LayoutTransformUs(const GpuPeaks& device, double waves, int64_t element_bytes,
                         double present);
// All transforms of a call whose launches are not known: of operands and results of `bytes`.
double LayoutTransformsUs(const GpuPeaks& device, int kernels, double bytes);
// Images that are padded to channels of a whole load of 16 bytes, of so many elements then.
double PaddedImagesUs(const GpuPeaks& device, double elements);
// That share, by a grid of blocks of pixels, of channels and of images; those of one block are
// mostly filters' nine.
double PresentPixels(const LaunchAttr* launch);

}  // namespace foretrace
