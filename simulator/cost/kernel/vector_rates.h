#pragma once
// What a device does outside of its units for matrix products.

#include "simulator/cost/kernel/gpu_peaks.h"

namespace foretrace {

// Results of single lanes, of the whole device.
struct VectorRates {
  double exponentials_per_us = 0;
  double instructions_per_us = 0;  // fp32: additions, products, conversions, ...
  double integers_per_us = 0;      // 32 bits: addresses, divisions of indices, comparisons
  double cycles_per_us = 0;
};
VectorRates VectorRatesOf(const GpuPeaks& device);

// How long integer instructions take at least, those of all lanes counted.
double InstructionUs(const GpuPeaks& device, double instructions);

}  // namespace foretrace
