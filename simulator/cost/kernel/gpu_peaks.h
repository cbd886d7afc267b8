#pragma once
// What a datasheet says of a GPU; the scale that fitted efficiencies are relative to.

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "simulator/base/dtype.h"
#include "simulator/hardware/accelerator.h"

namespace foretrace {

// The arithmetic that a GEMM-like kernel runs in. Storage may differ: tf32 operands are fp32.
enum class Precision : unsigned char { kFloat32, kTensorFloat32, kHalf, kFloat8, kInt8, kCount };
std::string_view Name(Precision precision);
// The arithmetic for a dtype. fp32 GEMMs may run on tensor cores: `allow_tf32` is the framework's
// setting, visible in kernel names.
Precision PrecisionOf(DType dtype, bool allow_tf32);

// A device in the units of kernel models; all of it is from its file (hardware/accelerator.h).
struct GpuPeaks {
  std::string name;
  double sms = 0;  // streaming multiprocessors
  double threads_per_sm = 0;
  double dram_gbps = 0;    // GB/s
  double l2_mbytes = 0;    // that one SM's data can occupy: one partition of a split cache
  double fp32_tflops = 0;  // dense, without tensor cores
  double tf32_tflops = 0;  // dense tensor cores; 0: none
  // Dense tensor cores; 0: none. GEMMs then run at the rate of fp32, in which frameworks add up
  // (cublasGemmEx, CUBLAS_COMPUTE_32F), not at that of packed 16-bit arithmetic: DeepBench's P100
  // reaches 9.1 TFLOP/s in either.
  double fp16_tflops = 0;
  double fp8_tflops = 0;   // dense tensor cores; 0: operands are widened to 16 bits
  double int8_tflops = 0;  // TOP/s of integers, dense tensor cores; 0: none
  Accelerator accelerator;
  // What GEMMs in fp32 without tensor cores keep up at the board's power limit; 0: its file does
  // not say.
  double sustained_fp32_tflops = 0;

  bool has_tensor_cores(Precision precision) const;
  // Of products of integers of 8 bits: where floating point of 8 has the same rate (since Hopper),
  // what was measured of one says what the other takes.
  Precision integer_precision() const;
  // TFLOP/s at the boost clock; the fp32 rate where the device has no units of that kind.
  double boost_tflops(Precision precision) const;
  // The scale of efficiencies: the same, but of fp32 without tensor cores no more than the board
  // keeps up. A board that its power binds runs the short kernels of a benchmark slower too.
  double peak_tflops(Precision precision) const;
  // What GEMMs on tensor cores keep up at the board's power limit; 0: its file does not say.
  double sustained_tflops(Precision precision) const;
  // Blocks of so many threads that a multiprocessor holds at once, at least one: by its threads
  // and, of kernels whose registers (of a thread) are known, by its registers.
  double resident_blocks(double threads, double registers = 0) const;

 private:
  double tensor_tflops(Precision precision) const;  // 0: no tensor cores for it
};

// Errors: what kernel models need is not in the file.
absl::StatusOr<GpuPeaks> PeaksOf(const Accelerator& accelerator);
// Of a device by the name of a driver, a platform or a person (AcceleratorCatalog::Find).
absl::StatusOr<GpuPeaks> FindGpuPeaks(std::string_view device);
// Of a label of measurements (AcceleratorCatalog::FindLabel).
absl::StatusOr<GpuPeaks> FindGpuPeaksOfLabel(std::string_view label);

}  // namespace foretrace
