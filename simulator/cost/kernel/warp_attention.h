#pragma once
// Time of FlashAttention-2 on devices that reach their peak by instructions of warpgroups: it is
// written for Ampere, whose warps multiply by themselves.

#include "simulator/cost/kernel/roofline.h"

namespace foretrace {

// `work` is as of AttentionRoofline, with WarpInstructionShare less than 1.
GemmTime WarpAttention(const GpuPeaks& device, Precision precision, const KernelWork& work,
                       double bandwidth_efficiency);

}  // namespace foretrace
