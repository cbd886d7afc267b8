#pragma once
// What a device does outside of its units for GEMMs.

#include "simulator/base/units.h"
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

// How long point-wise arithmetic takes at least, counted as elementwise_table.cpp does.
double ArithmeticUs(const GpuPeaks& device, Flop flop);

// From the loads of a thread to its stores, by the arithmetic of one element.
double ChainUs(const GpuPeaks& device, double flop_of_element);

// How long accesses of single threads take that those of their neighbours do not go with: each
// moves a sector of 32 bytes between L2 and a multiprocessor.
double ScatteredUs(const GpuPeaks& device, int64_t accesses);

// How long a device takes to hand out so many blocks of threads.
double DispatchUs(const GpuPeaks& device, int64_t blocks);

// A trip of a thread to DRAM: 375 to 500 cycles on V100 and 480 to 570 on A100 and H100
// ("Dissecting the NVIDIA Volta GPU architecture via microbenchmarking", 2018; "Dissecting the
// NVIDIA Hopper Architecture", 2025), more where the address is to be translated first.
inline constexpr double kTripCycles = 700;

// From the begin of a thread to its end, however little it does: its code and arguments come from
// memory, then its loads, of which `trips` wait for each other.
double ColdStartUs(const GpuPeaks& device, int64_t trips);

}  // namespace foretrace
