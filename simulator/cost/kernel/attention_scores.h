#pragma once
// What fused attention does to each score, whichever instructions multiply.

#include <algorithm>

#include "simulator/cost/operator/kernel_work.h"

namespace foretrace {

// Queries of a thread block forward, keys backward; the other side passes by in tiles of as many.
// Under a causal mask a tile on the diagonal is computed whole.
inline constexpr double kAttentionTile = 128;
inline constexpr double kForwardGemms = 2, kBackwardGemms = 5;

// Of a score forward: maximum, scaled difference, sum, conversion, masks.
inline constexpr double kAttentionInstructions = 5.5;

// Instructions a score that the backward pass has beyond its exponentials: difference, product,
// mask, conversions of P and dS, their stores, the sums of dQ. Unlike forward, registers leave no
// second block whose GEMMs could run meanwhile. What published kernels need on A100
// (FlashAttention-2, 2023, figure 6), H100 (FlashAttention-3, 2024, figure 6) and B200 amounts to
// 10 to 16.
inline constexpr double kAttentionGradientInstructions = 12;

// Scores that are computed; under a causal mask half of all.
inline double Scores(const KernelWork& work) {
  const double gemms = work.pass == Direction::kForward ? kForwardGemms : kBackwardGemms;
  return work.flop.count() / (2 * static_cast<double>(std::max<int64_t>(work.k, 1)) * gemms);
}

// Bytes of an element of the queries that FlashAttention's and cuDNN's backward pass moves before
// and after its blocks: dO and O are read for their product while fp32 sums of dQ are cleared;
// those are read again and rounded to dQ.
inline double BytesAroundGradients(const KernelWork& work) {
  constexpr double kSum = 4;
  const double size = static_cast<double>(std::max<int64_t>(ElementSize(work.dtype), 1));
  return 2 * size + kSum + kSum + size;
}

}  // namespace foretrace
