#pragma once
// Time of fused attention: GEMMs on matrix units, and between them arithmetic on scores that no
// GEMM hides.

#include "simulator/cost/kernel/roofline.h"

namespace foretrace {

// `work` is of kind kAttention: batch = samples x heads, m queries, n keys, k the depth of a head.
// `parameters` are those of the device's GEMMs, from which the GEMMs take their rate.
GemmTime AttentionRoofline(const GemmParameters& parameters, const GpuPeaks& device,
                           Precision precision, const KernelWork& work);

}  // namespace foretrace
