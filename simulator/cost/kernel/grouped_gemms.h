#pragma once
// GEMMs by expert whose sizes no call states: what generated kernels say in their names, their
// launches, and how much the call around them is given.

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "simulator/base/time.h"
#include "simulator/cost/kernel/gpu_peaks.h"

namespace foretrace {

// TensorRT-LLM's generated batched GEMMs (trtllm-gen), which vLLM and SGLang run too:
// "bmm_<results>_<weights><tokens>_Fp32_t<a>x<b>x<depth>u<unroll>_s<stages>...": a block of a x b
// results, of which the weights have a where it says "transOut", else b.
struct GroupedKernel {
  int64_t rows = 0, tokens = 0, depth = 0;  // of a block, and of a step of its reduction
  int64_t buffers = 1;                      // steps whose operands shared memory holds
  double weight_bits = 0, token_bits = 0, result_bits = 0;  // scales of blocks included
  bool gated = false;    // every second row is a gate of the one before
  bool dynamic = false;  // launched for the most blocks there can be; those without tokens end
};
// nullopt: no such kernel, or of types that are not known. Linear in the name's length.
std::optional<GroupedKernel> GroupedKernelOf(std::string_view name);

// How many blocks of `tokens` a GEMM by expert fills in the mean, with `pairs` of tokens and
// experts of which each goes to one of `experts`, alike and independent (a Poisson distribution).
// experts, tokens positive.
double ExpectedTokenBlocks(double pairs, int64_t experts, int64_t tokens);

struct GroupedLaunch {
  std::string_view name;
  uint32_t waves_milli = 0;  // RankTrace::waves_milli
};
// The two GEMMs of a layer of experts, in order of issue, of a call that is given `tokens`
// vectors of `width` and the choice among `experts`. The second's results are as wide as what the
// call is given, which says how many blocks of tokens there are, and so how wide the first's are.
// Empty: the launches are not those of such a pair.
std::vector<SimTime> GroupedGemmTimes(const GpuPeaks& device, double bandwidth_efficiency,
                                      std::span<const GroupedLaunch> launches, int64_t tokens,
                                      int64_t width, int64_t experts);

}  // namespace foretrace
