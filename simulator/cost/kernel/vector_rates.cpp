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

namespace {
// What is counted as one operation compiles to more: conversions, tests of ranges, polynomials'
// constants. TimeSformer's gelu (H100, traces/README.md) takes 36 for its 16.
constexpr double kInstructionsPerFlop = 2.25;
}  // namespace

double ChainUs(const GpuPeaks& device, double flop_of_element) {
  // Four elements of a thread, whose instructions mostly wait for each other: 4 cycles of one of
  // fp32, 20 and more of a special function. Even rows of gelu, sigmoid, silu and tanh of
  // calibration/h100-sxm5-nvswitch/measurements/kernels.csv.xz take 0.3 to 0.45 us longer than
  // those of additions.
  constexpr double kElements = 4, kCyclesPerInstruction = 6;
  return flop_of_element * kInstructionsPerFlop * kElements * kCyclesPerInstruction /
         VectorRatesOf(device).cycles_per_us;
}

double ArithmeticUs(const GpuPeaks& device, Flop flop) {
  return flop.count() * kInstructionsPerFlop / VectorRatesOf(device).instructions_per_us;
}

double ScatteredUs(const GpuPeaks& device, int64_t accesses) {
  // Transposed tensors of 32,256 x 1,536, 2 and 4 bytes an element alike, take 400 us on an H100
  // (Wan2.1, traces/README.md): a sector every other cycle for each multiprocessor.
  constexpr double kSectorsPerCycle = 0.51;
  return static_cast<double>(accesses) /
         (kSectorsPerCycle * device.sms * VectorRatesOf(device).cycles_per_us);
}

double DispatchUs(const GpuPeaks& device, int64_t blocks) {
  // Gathers of DLRM's (dlrm-heavy-b1024, H100, traces/README.md, "Captured") take 0.62 us for every
  // 1,000 blocks, of one warp or two alike: a block a cycle but for a tenth.
  constexpr double kBlocksPerCycle = 0.9;
  return static_cast<double>(blocks) / (kBlocksPerCycle * VectorRatesOf(device).cycles_per_us);
}

double ColdStartUs(const GpuPeaks& device, int64_t trips) {
  // Code and arguments are a trip each, which partly overlap.
  constexpr double kCodeCycles = 800;
  // AMD's devices empty the caches of code, arguments and data at each kernel's begin, and
  // arguments lie in the host's memory ("HIP_FORCE_DEV_KERNARG", ROCm documentation, MI300X
  // workload optimization: 2 to 3 us). Cycles are those of the MI250's small kernels
  // (hta-traces/amd_trace).
  constexpr double kAmdTripCycles = 1800, kAmdCodeCycles = 2400;
  const bool amd = device.accelerator.vendor == "AMD";
  return ((amd ? kAmdCodeCycles : kCodeCycles) +
          (amd ? kAmdTripCycles : kTripCycles) * static_cast<double>(trips)) /
         VectorRatesOf(device).cycles_per_us;
}

}  // namespace foretrace
