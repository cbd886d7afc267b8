#include "simulator/cost/kernel/index_kernels.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "simulator/cost/kernel/code_fetch.h"
#include "simulator/cost/kernel/vector_rates.h"

namespace foretrace {
namespace {

bool Has(std::string_view name, std::string_view part) { return name.find(part) != name.npos; }

double Bits(int64_t places) {
  return static_cast<double>(std::bit_width(static_cast<uint64_t>(std::max<int64_t>(places, 2))));
}

double CyclesUs(const GpuPeaks& device, double cycles) {
  return cycles / VectorRatesOf(device).cycles_per_us;
}

// cub::DeviceRadixSortSingleTileKernel: a block of 256 threads of 9 pairs, six bits a pass
// (cub/device/dispatch/dispatch_radix_sort.cuh). A pass counts digits in shared memory, item after
// item, adds up 17 rows of counters around four barriers, and takes keys and values through shared
// memory: some 40 cycles each for the 9 items' counters, 300 for the sums, 2 x 200 for the
// exchanges. All of it is unrolled: code of 32 KiB, judged by DLRM-8's two such kernels (V100).
double OneTileSortUs(const GpuPeaks& device, int64_t places) {
  constexpr double kBitsOfPass = 6, kPassCycles = 9 * 40 + 17 * 16 + 300 + 2 * 200;
  constexpr double kCodeLines = (32 << 10) / 128.0;
  const double passes = std::ceil(Bits(places) / kBitsOfPass);
  const double code_us = FetchesCodeOnDemand(device) ? CyclesUs(device, kCodeLines * 50) : 0;
  return code_us + CyclesUs(device, passes * kPassCycles);
}

// Larger sorts, pass by pass (cub's onesweep: eight bits): keys and values of 8 bytes are read and
// written.
double SortPassUs(double bytes_per_us, int64_t indices) {
  constexpr double kPairBytes = 2 * (8 + 8);
  return static_cast<double>(indices) * kPairBytes / bytes_per_us;
}

// aten/src/ATen/native/cuda/Indexing.cu, indexing_backward_kernel: a warp an index and 128 elements
// of its row. It compares its index with the one before, looks up where the value lies, reads value
// and place, and looks whether the next index is the same.
double IndexingBackwardUs(const GpuPeaks& device, double bytes_per_us, const Launch& launch,
                          const IndexedWrite& write) {
  constexpr int64_t kTrips = 4;
  const double trip_us = ColdStartUs(device, 1) - ColdStartUs(device, 0);
  const double waves = std::max(std::ceil(launch.waves_milli / 1000.0), 1.0);
  const double memory_us = 3 * static_cast<double>(write.bytes) / bytes_per_us;
  return std::max(waves * kTrips * trip_us, memory_us) - trip_us;
}

}  // namespace

IndexedWrite IndexedWriteOf(const IndexOp& op, DType dtype) {
  const int64_t row = op.index_count > 0 ? std::max<int64_t>(op.elements / op.index_count, 1) : 1;
  return {op.index_count, op.source_elements / row,
          SaturatingProduct({op.elements, ElementSize(dtype)})};
}

std::optional<double> IndexedWriteUs(const GpuPeaks& device, double bandwidth_efficiency,
                                     const Launch& launch, const IndexedWrite& write) {
  const std::string_view name = launch.name;
  const double bytes_per_us = device.dram_gbps * 1e3 * bandwidth_efficiency;
  if (Has(name, "indexing_backward_kernel")) {
    return IndexingBackwardUs(device, bytes_per_us, launch, write);
  }
  if (Has(name, "RadixSortSingleTile")) return OneTileSortUs(device, write.places);
  if (Has(name, "RadixSortOnesweep") || Has(name, "RadixSortDownsweep")) {
    if (write.indices <= 0) return std::nullopt;
    return SortPassUs(bytes_per_us, write.indices);
  }
  // Counts of digits and their sums; numbers in order; places of several indices in one.
  if (Has(name, "RadixSort") || Has(name, "elementwise_kernel_with_index") ||
      Has(name, "DeviceScan")) {
    return 0.0;
  }
  return std::nullopt;
}

}  // namespace foretrace
