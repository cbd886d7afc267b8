#pragma once
// A device of round numbers for tests of kernels by instructions.

#include "simulator/cost/kernel/gpu_peaks.h"

namespace foretrace {

// 100 multiprocessors of 64 lanes at 1 GHz: 12.8 TFLOP/s in fp32, 100 by warpgroups in 16 bits, of
// which warps by themselves attain `warp_gemms`; 16 x 100 exponentials and 64 x 100 instructions a
// nanosecond.
inline GpuPeaks PlainDevice(double warp_gemms) {
  GpuPeaks device{"test", 100, 2048, 1e6, 20, 12.8, 50, 100, {}};
  ComputeUnit sm;
  sm.count = 100;
  sm.clock_hz = 1e9;
  device.accelerator.units.push_back(sm);
  device.accelerator.instructions.warp_gemms = warp_gemms;
  return device;
}

}  // namespace foretrace
