#include "simulator/cost/kernel/analytic_memory.h"

#include <array>

namespace foretrace {
namespace {

struct ClassCost {
  KernelKind kind;
  double bandwidth_share;  // of what streaming kernels reach
  double latency_us;       // on top of the shortest kernel
  double part_us;          // for each tensor after the first
};

// Latencies are what recorded kernels of DLRM-8 (V100, 2022, traces/README.md) take beyond
// streaming their bytes: a reduction adds up within threads, then over a block in log2 steps with a
// barrier each; a concatenation looks up its source for every tensor. Transposes use about half of
// each 32-byte sector that they touch on one side; their share was set with those of the public
// profile `control` (A100) in view. Other kernels of other GPUs took no part (docs/accuracy.md).
constexpr std::array<ClassCost, 3> kClasses = {{
    {KernelKind::kReduction, 1.0, 4.0, 0.0},
    {KernelKind::kConcat, 1.0, 0.7, 0.33},
    {KernelKind::kTranspose, 0.6, 0.7, 0.0},
}};

}  // namespace

double AnalyticMemoryUs(const MemoryParameters& streaming, const GpuPeaks& device,
                        const KernelWork& work) {
  MemoryParameters parameters = streaming;
  double extra_us = 0;
  for (const ClassCost& cost : kClasses) {
    if (cost.kind != work.kind) continue;
    parameters.bandwidth_efficiency *= cost.bandwidth_share;
    extra_us = cost.latency_us + cost.part_us * static_cast<double>(work.parts - 1);
  }
  return MemoryRoofline(parameters, device, work).kernel_us + extra_us;
}

}  // namespace foretrace
