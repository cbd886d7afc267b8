#include "simulator/cost/kernel/index_kernels.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "simulator/cost/kernel/code_fetch.h"
#include "simulator/cost/kernel/roofline.h"
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

// CUB's kernels that sort keys and find the first of each, and what stands between them, with the
// few blocks that so few keys give them: what gpt2-small-b8-bf16's take (H100).
std::optional<double> SortedKeysUs(const GpuPeaks& device, double bandwidth_efficiency,
                                   std::string_view name, int64_t keys) {
  constexpr double kSortPassCycles = 9500, kHistogramCycles = 4900, kUniqueCycles = 8000,
                   kScanCycles = 4000, kSmallCycles = 700;
  if (Has(name, "RadixSortOnesweep")) {
    const double bytes_per_us = device.dram_gbps * 1e3 * bandwidth_efficiency;
    return std::max(CyclesUs(device, kSortPassCycles), SortPassUs(bytes_per_us, keys));
  }
  if (Has(name, "RadixSortHistogram")) return CyclesUs(device, kHistogramCycles);
  if (Has(name, "DeviceUniqueByKeySweep")) return CyclesUs(device, kUniqueCycles);
  if (Has(name, "DeviceScanKernel")) return CyclesUs(device, kScanCycles);
  for (const std::string_view small :
       {"RadixSort", "DeviceScanInit", "DeviceCompactInit", "krn_partial", "compute_num_of_partial",
        "elementwise_kernel_with_index"}) {
    if (Has(name, small)) return CyclesUs(device, kSmallCycles);
  }
  return std::nullopt;
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

std::optional<double> WarpsOfBagsUs(const GpuPeaks& device, double bandwidth_efficiency,
                                    const Launch& launch, int64_t bytes) {
  // fbgemm_gpu/src/split_embeddings_utils.cu: where the bag begins and ends, how many rows its
  // table has, the index. fbgemm_gpu/src/sparse_ops: which bag goes here, where it lies and where
  // it goes, the value, which is written again.
  constexpr double kChecked = 4, kPermuted = 5;
  const bool checks = Has(launch.name, "bounds_check_indices_kernel");
  if (!checks && !Has(launch.name, "permute_indices_weights_kernel")) return std::nullopt;
  if (launch.waves_milli == 0) return std::nullopt;
  const double trip_us = ColdStartUs(device, 1) - ColdStartUs(device, 0);
  const double waves = std::max(launch.waves_milli / 1000.0, 1.0);
  const double moved = static_cast<double>(bytes) * (checks ? 1 : 2);
  const double memory_us = moved / (device.dram_gbps * 1e3 * bandwidth_efficiency);
  return SmoothSum(waves * (checks ? kChecked : kPermuted) * trip_us, memory_us, 2) - trip_us;
}

std::optional<double> DenseGradientUs(const GpuPeaks& device, double bandwidth_efficiency,
                                      const Launch& launch, int64_t indices) {
  const std::string_view name = launch.name;
  const double trip_us = ColdStartUs(device, 1) - ColdStartUs(device, 0);
  // Few indices: every block goes over all of them, 32 at a time. It reads them and their rows,
  // looks which are equal, and adds to the table, from which two to three loads wait for each other
  // by how many are equal.
  if (Has(name, "embedding_backward_feature_kernel")) {
    constexpr int64_t kAtOnce = 32;
    constexpr double kTrips = 2.5;
    const int64_t steps = (std::max<int64_t>(indices, 1) - 1) / kAtOnce + 1;
    return static_cast<double>(steps) * kTrips * trip_us;
  }
  // A block for ten lookups of a row, then one for a row: where its part begins, where the next one
  // does, which lookups those are, their values. Those of the captured jobs (H100,
  // traces/README.md) take 2.9 to 4.6 trips a wave.
  if (Has(name, "compute_grad_weight<") || Has(name, "sum_and_scatter<")) {
    constexpr int64_t kTrips = 4;
    return std::max(launch.waves_milli / 1000.0, 1.0) * ColdStartUs(device, kTrips);
  }
  return SortedKeysUs(device, bandwidth_efficiency, name, indices);
}

}  // namespace foretrace
