#pragma once
// GEMMs by the kernel that a recording shows: the block of results that its name states,
// and how many blocks were launched. A library's choice among kernels is then known, not modelled.

#include <cstdint>
#include <string_view>

#include "simulator/cost/kernel/gpu_peaks.h"
#include "simulator/cost/operator/kernel_work.h"

namespace foretrace {

// Without tensor cores, a thread with t x t results loads 2 t operands for t^2 multiplications, and
// takes its share of addresses and copies: so many other instructions for t multiplications. Set by
// gpt2-small-b2-fp32 (H100, traces/README.md, "Captured").
inline constexpr double kOtherInstructions = 3.45;

// What a thread block computes: rows x cols results (rows lie along n of y[m,n], since cuBLAS is
// column-major), `depth` of the reduction at a time, `stages` of such operands in shared memory.
struct GemmBlock {
  int64_t rows = 0, cols = 0, depth = 0;
  int64_t stages = 0;        // 0: the name does not say; operands pass through registers
  int64_t warps = 0;         // 0: the name does not say
  bool in_bands = false;     // launched in whole bands of blocks
  bool along_depth = false;  // both operands lie along the reduction
  bool known() const { return rows > 0; }
};

// cuBLAS's "volta_sgemm_128x64_nn", "ampere_sgemm_32x32_sliced1x4_tn" and
// "s16816gemm_bf16_128x256_ldg8_f2f_stages_64x3_tn", cuDNN's "scudnn_128x64_relu", CUTLASS's
// "s1688gemm_256x128_32x3_nt_align1", "sm80_xmma_gemm_..._tilesize64x32x8_stage3_...". Kernels for
// Hopper and later divide their blocks otherwise and are not known; nor are Winograd's.
GemmBlock GemmBlockOf(std::string_view name);
// "..._tilesize64x32x8_stage3_warpsize1x2x1_..." of xmma's kernels for Ampere.
GemmBlock XmmaBlockOf(std::string_view name);

// Blocks that a multiprocessor holds at once, by registers for results and shared memory for
// operands.
double ResidentBlocks(const GpuPeaks& device, const GemmBlock& block, int64_t element_bytes);

struct BlockedGemm {
  GemmBlock block;
  double blocks = 0;  // of all results, not counting parts of a split reduction
  double split = 1;   // blocks that share the results of one, a part of the reduction each
  // The parts add to the results one after the other, rather than leave that to another kernel.
  bool in_turn = false;
  double filled_rows = 0, filled_cols = 0;  // of a block, in the mean; 0: all
  double depth = 0;                         // the whole reduction
  double read_bytes = 0, written_bytes = 0;
  int64_t element_bytes = 4;  // of an operand
  int64_t load_elements = 0;  // that a thread loads at once; 0: 16 bytes
};

// The GEMM of those sizes that a call's shapes state. `waves`: blocks launched over those that
// the device holds at once; 0: not known, the reduction is taken to be whole.
BlockedGemm BlockedGemmOf(const GpuPeaks& device, const GemmBlock& block, const KernelWork& work,
                          double waves);

// What any GEMM's kernel takes beside what it multiplies and moves.
double GemmStartUs(const GpuPeaks& device);

// `bandwidth_efficiency`: of the DRAM's peak.
double BlockedGemmUs(const GpuPeaks& device, Precision precision, double bandwidth_efficiency,
                     const BlockedGemm& gemm);

// Kernels without blocks to fill, for a matrix and a vector or a few rows (cuBLAS's gemv, gemmSN,
// gemmk1 and dot).
bool IsThinGemm(std::string_view name);
// Of those, the ones whose threads each walk the whole reduction.
bool WalksReduction(std::string_view name);
double ThinGemmUs(const GpuPeaks& device, double bandwidth_efficiency, const KernelWork& work,
                  bool walks);

}  // namespace foretrace
