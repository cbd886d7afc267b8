#pragma once
// Output tiles of GEMMs.

#include <array>

namespace foretrace {

struct GemmTile {
  double rows, cols;
};
// Output tiles of the BLAS kernels on tensor cores: libraries have more than the roofline tries.
// Large ones first, of which shapes are interpolated by the first eleven (shape_covariance.cpp).
inline constexpr std::array<GemmTile, 18> kGemmTiles = {{{128, 256},
                                                         {256, 128},
                                                         {256, 256},
                                                         {128, 192},
                                                         {192, 128},
                                                         {128, 128},
                                                         {64, 256},
                                                         {256, 64},
                                                         {128, 64},
                                                         {64, 128},
                                                         {64, 64},
                                                         {64, 32},
                                                         {32, 64},
                                                         {128, 32},
                                                         {16, 64},
                                                         {16, 128},
                                                         {32, 128},
                                                         {32, 32}}};

// Those by whose blocks libraries divide the reduction, where the blocks do not fill the device.
inline constexpr std::array<GemmTile, 4> kSplitTiles = {
    {{128, 128}, {64, 64}, {16, 64}, {64, 128}}};

}  // namespace foretrace
