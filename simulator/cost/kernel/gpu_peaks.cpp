#include "simulator/cost/kernel/gpu_peaks.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "simulator/base/enum_names.h"
#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/hardware/catalog.h"

namespace foretrace {
namespace {

// Rates are whole numbers of FLOP/s, so that the quotient is the decimal figure of the file.
double Tflops(FlopRate rate) { return rate.per_second() / 1e12; }

// Of units for GEMMs alone.
double GemmTflops(const Accelerator& accelerator, RateKind kind) {
  FlopRate best;
  for (const ComputeUnit& unit : accelerator.units) {
    if (unit.kind != UnitKind::kSimt) best = std::max(best, unit.rate(kind));
  }
  return Tflops(best);
}

}  // namespace

std::string_view Name(Precision precision) {
  static constexpr std::array<std::string_view, 5> kNames = {"float32", "tf32", "half", "float8",
                                                             "int8"};
  return EnumName(kNames, precision);
}

Precision PrecisionOf(DType dtype, bool allow_tf32) {
  switch (dtype) {
    case DType::kFloat16:
    case DType::kBFloat16:
      return Precision::kHalf;
    case DType::kFloat8:
      return Precision::kFloat8;
    case DType::kFloat32:
      return allow_tf32 ? Precision::kTensorFloat32 : Precision::kFloat32;
    default:
      return Precision::kFloat32;
  }
}

double GpuPeaks::tensor_tflops(Precision precision) const {
  double tensor = 0;
  if (precision == Precision::kTensorFloat32) tensor = tf32_tflops;
  if (precision == Precision::kFloat8) tensor = fp8_tflops;
  if (precision == Precision::kInt8) tensor = int8_tflops;
  const bool widened = precision == Precision::kFloat8 && tensor <= 0;
  return precision == Precision::kHalf || widened ? fp16_tflops : tensor;
}

bool GpuPeaks::has_tensor_cores(Precision precision) const { return tensor_tflops(precision) > 0; }

Precision GpuPeaks::integer_precision() const {
  if (int8_tflops <= 0) return Precision::kFloat32;
  return int8_tflops == fp8_tflops ? Precision::kFloat8 : Precision::kInt8;
}

double GpuPeaks::boost_tflops(Precision precision) const {
  const double tensor = tensor_tflops(precision);
  return tensor > 0 ? tensor : fp32_tflops;
}

double GpuPeaks::peak_tflops(Precision precision) const {
  const double boost = boost_tflops(precision);
  const bool limited = precision == Precision::kFloat32 && sustained_fp32_tflops > 0;
  return limited ? std::min(sustained_fp32_tflops, boost) : boost;
}

double GpuPeaks::sustained_tflops(Precision precision) const {
  const RateKind kind = precision == Precision::kTensorFloat32 ? RateKind::kTf32
                        : precision == Precision::kFloat8      ? RateKind::kFp8
                        : precision == Precision::kInt8        ? RateKind::kInt8
                                                               : RateKind::kFp16;
  return Tflops(accelerator.sustained(kind));
}

double GpuPeaks::resident_blocks(double threads, double registers) const {
  double resident = threads_per_sm;
  const double file = accelerator.occupancy.registers;
  if (registers > 0 && file > 0) resident = std::min(resident, file / registers);
  return std::max(std::floor(resident / threads), 1.0);
}

absl::StatusOr<GpuPeaks> PeaksOf(const Accelerator& accelerator) {
  const MemoryLevel* cache = accelerator.level(MemoryKind::kCache);
  GpuPeaks peaks;
  peaks.name = accelerator.name;
  peaks.sms = accelerator.multiprocessors();
  peaks.threads_per_sm = accelerator.occupancy.threads;
  peaks.dram_gbps = accelerator.memory_bandwidth().bytes_per_second() / 1e9;
  peaks.fp32_tflops = Tflops(accelerator.simt_peak(RateKind::kFp32));
  peaks.sustained_fp32_tflops = Tflops(accelerator.sustained(RateKind::kFp32));
  peaks.tf32_tflops = Tflops(accelerator.peak(RateKind::kTf32));
  peaks.fp16_tflops = GemmTflops(accelerator, RateKind::kFp16);
  peaks.fp8_tflops = Tflops(accelerator.peak(RateKind::kFp8));
  peaks.int8_tflops = GemmTflops(accelerator, RateKind::kInt8);
  std::vector<std::string_view> lacking;
  if (peaks.sms <= 0) lacking.push_back("compute of kind simt with count");
  if (peaks.fp32_tflops <= 0) lacking.push_back("rates_TFLOPS.fp32 of compute of kind simt");
  if (cache == nullptr) lacking.push_back("memory of kind cache");
  if (peaks.dram_gbps <= 0) lacking.push_back("memory of kind device with bandwidth_GBps");
  if (peaks.threads_per_sm <= 0) lacking.push_back("occupancy.threads");
  if (!lacking.empty()) {
    return InvalidInput("{}: kernels cannot be modelled on {}: the file states no {}",
                        accelerator.file, accelerator.name, fmt::join(lacking, ", no "));
  }
  peaks.l2_mbytes = static_cast<double>(cache->capacity.count()) / 1e6 / cache->partitions;
  peaks.accelerator = accelerator;
  return peaks;
}

absl::StatusOr<GpuPeaks> FindGpuPeaks(std::string_view device) {
  FORETRACE_ASSIGN_OR_RETURN(const Accelerator found, FindAccelerator(device));
  return PeaksOf(found);
}

absl::StatusOr<GpuPeaks> FindGpuPeaksOfLabel(std::string_view label) {
  FORETRACE_ASSIGN_OR_RETURN(const AcceleratorCatalog catalog, AcceleratorCatalog::Load());
  const Accelerator* found = catalog.FindLabel(label);
  return found == nullptr ? catalog.Unknown(label) : PeaksOf(*found);
}

}  // namespace foretrace
