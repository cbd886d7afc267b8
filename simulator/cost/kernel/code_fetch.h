#pragma once
// Code of kernels that a multiprocessor has to fetch again because others ran since.

#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "simulator/base/time.h"
#include "simulator/cost/kernel/gpu_peaks.h"

namespace foretrace {

// Volta's multiprocessors fetch code on demand, line after line: a GEMM's kernel takes 3 to 5 us
// longer where 30 kernels and more ran since it last did (DLRM-8, df_index_resolver). On Ampere and
// later it is within 1 us (trace_diff/control) or nothing (five recordings of H100), for a launch
// names code to fetch ahead.
bool FetchesCodeOnDemand(const GpuPeaks& device);

// Whether a launch fetches its kernel's code ahead, so that a branch that no warp took before waits
// for nothing: Hopper and later. Of conversions of few elements (a branch by type) those of OWLv2
// (H100) take no longer for it, those of DLRM-8 (V100) and control (A100) two trips to memory.
bool LaunchesFetchCode(const GpuPeaks& device);

// Of instructions, 16 bytes each; typical of cuBLAS's, cuDNN's and PyTorch's kernels of Volta. The
// loops of GEMMs are unrolled over a block's results.
int64_t CodeBytes(std::string_view kernel);

// What the code of a GEMM's kernel takes on such a device; that of other kernels is within what
// all that start cold wait for (ColdStartUs).
SimTime CodeFetchTime(const GpuPeaks& device, std::string_view kernel);

// The instruction cache of a multiprocessor: what ran last stays.
class CodeCache {
 public:
  // Runs a kernel; whether its code had to be fetched.
  bool Run(uint32_t name, int64_t bytes);

 private:
  struct Resident {
    uint32_t name = 0;
    int64_t bytes = 0;
  };
  std::vector<Resident> recent_;  // the latest last
  int64_t bytes_ = 0;
};

}  // namespace foretrace
