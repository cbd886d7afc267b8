#include "simulator/cost/kernel/vector_rates.h"

#include <algorithm>

namespace foretrace {

VectorRates VectorRatesOf(const GpuPeaks& device) {
  // CUDA C++ programming guide, throughput of native arithmetic instructions: 16 results of special
  // functions and 64 of 32-bit integers a clock and multiprocessor, compute capabilities 6.0 to
  // 10.0; AMD's CDNA as many.
  constexpr double kExponentials = 16, kIntegers = 64;
  double cycles = 0, cycles_of_all = 0;
  for (const ComputeUnit& unit : device.accelerator.units) {
    if (unit.kind != UnitKind::kSimt) continue;
    const double of_all = unit.count * unit.clock_hz * 1e-6;
    if (of_all <= cycles_of_all) continue;
    cycles_of_all = of_all;
    cycles = unit.clock_hz * 1e-6;
  }
  // A multiply-add is one instruction. Without a clock, as many lanes for it as for integers.
  const double instructions = device.fp32_tflops * 1e6 / 2;
  if (cycles_of_all <= 0) {
    cycles_of_all = instructions / kIntegers;
    cycles = cycles_of_all / device.sms;
  }
  return {kExponentials * cycles_of_all, instructions, kIntegers * cycles_of_all, cycles};
}

double InstructionUs(const GpuPeaks& device, double instructions) {
  return instructions > 0 ? instructions / VectorRatesOf(device).integers_per_us : 0;
}

}  // namespace foretrace
