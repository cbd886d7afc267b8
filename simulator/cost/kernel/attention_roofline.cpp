#include "simulator/cost/kernel/attention_roofline.h"

#include <algorithm>
#include <cmath>

#include "simulator/cost/kernel/attention_scores.h"
#include "simulator/cost/kernel/vector_rates.h"
#include "simulator/cost/kernel/warp_attention.h"

namespace foretrace {
namespace {

constexpr double kTile = kAttentionTile;
constexpr double kLargestTileIntensity = 128.0 * 256 / (128 + 256);
// Backward, warpgroups multiply tiles of 64 x 64, whose operands pass through shared memory for
// each, as names of cuDNN's kernels for Hopper state ("flash_bprop_wgmma_f16_knob_26_64x64x128",
// H100, traces/README.md, "Captured").
constexpr double kBackwardTileIntensity = 64.0 * 64 / (64 + 64);

// A block of the backward pass loads its keys and values, fills its pipeline, and writes the
// gradients of both at its end, while no other block of its multiprocessor runs; forward the
// queries and results of a persistent block pass beside the neighbours' GEMMs. Set by cuDNN's
// kernels of bert-base-b64-bf16 (H100, traces/README.md, "Captured"), which are not masked. Where
// tiles are paired, whose rates differ (below), kernels of a B200 agree with the second of each, as
// do those of fp32 tensors and of single queries.
constexpr double kBackwardBlockCycles = 4000, kBackwardPairCycles = 7500;
constexpr double kForwardBlockCycles = 300, kForwardPairCycles = 700;

// Under a causal mask blocks differ, so that the multiprocessor with the longest ones ends after
// the mean: by this share of the mean where each has one block, less the more it has. Set by the
// four GPT-2s in bf16 of the same recordings. Of a B200's kernels SimuMax's table shows neither
// this nor the passes around a backward pass.
constexpr double kUneven = 0.3;

// Attention of fp32 tensors takes each product as three of TF32 (PyTorch's mem_eff_attention:
// OpMultiplyAddFastF32), whether or not GEMMs may use TF32, by kernels for Ampere whose blocks of
// 64 x 64 leave most of the rate: bert-base-b4-tf32's attain this share.
constexpr double kProductsOfFloat = 3, kFloatShare = 0.28;

// Where tensor cores work asynchronously (Blackwell), forward a block has two tiles of queries,
// of which one is multiplied while the other's exponentials are taken ("FlashAttention-4", Together
// AI, 2026: new pipelining). What cuDNN takes on a B200 says the same (SimuMax's table: 1.2 to 1.8
// times too slow with both in turn, within 13 % so).
bool PairsTiles(const GpuPeaks& device) {
  return device.accelerator.instructions.asynchronous_matrices;
}

// Of Hopper's forward pass: warpgroups of a block take turns, so that one multiplies while the
// other takes its exponentials ("FlashAttention-3", 2024, section 3.1), which hides a part of
// either. The power of their sum is what cuDNN's kernels for heads of 128 take
// (llama3-8b-l4-s8192-b1-none, H100, traces/README.md, "Captured"); those for heads of 64 took no
// part.
constexpr double kTurnsPower = 1.5;

// How a device's kernels work a call off.
struct AttentionForm {
  bool forward = true;
  bool persistent = false;   // a block for each multiprocessor, by warpgroups
  bool pairs = false;        // PairsTiles
  bool in_parts = false;     // float32 as products of tf32
  bool small_tiles = false;  // backward by Hopper's
  bool in_turn = false;      // see kTurnsPower
};

AttentionForm FormOf(const GpuPeaks& device, Precision precision, const KernelWork& work) {
  AttentionForm form;
  form.forward = work.pass == Direction::kForward;
  form.persistent = device.accelerator.instructions.by_warpgroups();
  form.pairs = PairsTiles(device);
  form.in_parts = precision == Precision::kFloat32 && device.tf32_tflops > 0;
  const bool hopper = form.persistent && !form.pairs && !form.in_parts;
  form.small_tiles = !form.forward && hopper;
  // One query of each sequence leaves nothing to take turns with.
  form.in_turn = form.forward && hopper && work.m > 1;
  return form;
}

// FLOP a microsecond that GEMMs on tiles reach. A tile's load one row of keys and one of values for
// each key and use both for all queries of the block, which is more intense than any tile of a
// GEMM; what is left to limit them is what limits the GEMM's largest.
double MatrixRate(const GemmParameters& p, const GpuPeaks& device, Precision precision,
                  const AttentionForm& form) {
  const double intensity = form.small_tiles ? kBackwardTileIntensity : kLargestTileIntensity;
  const double rate = device.peak_tflops(precision) * 1e6 * p.compute_efficiency * intensity /
                      (intensity + p.tile_intensity);
  if (!form.in_parts) return rate;
  const double warps = device.accelerator.instructions.warp_gemms;
  return std::min(rate, device.tf32_tflops * 1e6 * warps / kProductsOfFloat * kFloatShare);
}

// Of one score of heads of `size`; the GEMMs of one of two tiles hide the exponentials of the
// other.
double ScoreUs(double size, double rate, const VectorRates& vector, const AttentionForm& form) {
  const double gemms = form.forward ? kForwardGemms : kBackwardGemms;
  double between = 1 / vector.exponentials_per_us;
  if (!form.forward) between += kAttentionGradientInstructions / vector.instructions_per_us;
  if (form.in_turn) between += kAttentionInstructions / vector.instructions_per_us;
  const double multiplied = 2 * size * gemms / rate;
  if (form.forward && form.pairs) return std::max(multiplied, between);
  return form.in_turn ? SmoothSum(multiplied, between, kTurnsPower) : multiplied + between;
}

// However few keys a block has, it loads its queries, fills its pipeline and writes its results;
// those of one multiprocessor follow each other.
double BlockUs(const GemmParameters& p, const VectorRates& vector, const AttentionForm& form) {
  const double cycles = !form.persistent   ? 0
                        : form.in_turn     ? kForwardBlockCycles
                        : form.forward     ? kForwardPairCycles
                        : form.small_tiles ? kBackwardBlockCycles
                                           : kBackwardPairCycles;
  return p.block_us > 0 ? p.block_us : cycles / vector.cycles_per_us;
}

}  // namespace

GemmTime AttentionRoofline(const GemmParameters& p, const GpuPeaks& device, Precision precision,
                           const KernelWork& work) {
  if (WarpInstructionShare(device, work) < 1) {
    return WarpAttention(device, precision, work, p.bandwidth_efficiency);
  }
  const AttentionForm form = FormOf(device, precision, work);
  const auto real = [](int64_t n) { return static_cast<double>(std::max<int64_t>(n, 1)); };
  const double batch = real(work.batch), m = real(work.m), n = real(work.n), k = real(work.k);
  const double scores = Scores(work);
  const double masked = scores < 0.75 * batch * m * n ? 1 + kTile / n : 1;
  const VectorRates vector = VectorRatesOf(device);
  GemmTime time;
  time.waves = batch * std::ceil((form.forward ? m : n) / kTile) / device.sms;
  const double full = std::ceil(time.waves);
  // A block for each multiprocessor takes whole tiles, one after the other.
  double filled = form.in_parts     ? std::max(time.waves, 1.0)
                  : form.persistent ? full
                                    : full + p.partial_wave * (std::max(time.waves, 1.0) - full);
  if (masked > 1 && form.persistent && !form.pairs) filled *= 1 + kUneven / full;
  const double score_us = ScoreUs(k, MatrixRate(p, device, precision, form), vector, form);
  time.compute_us = masked * scores * score_us * filled / time.waves;
  // Under a causal mask blocks differ, and the longest is no faster than one multiprocessor.
  if (masked > 1) {
    const double tiles = form.forward && form.pairs ? 2 : 1;
    const double longest = tiles * kTile * (form.forward ? n : m);
    time.compute_us = std::max(time.compute_us, longest * device.sms * score_us);
  }
  const double bytes_per_us = device.dram_gbps * 1e3 * p.bandwidth_efficiency;
  time.memory_us = static_cast<double>(work.total_bytes()) / bytes_per_us;
  time.compute_us += BlockUs(p, vector, form) * time.waves;
  time.kernel_us = p.base_us + SmoothSum(time.compute_us, time.memory_us, p.overlap_power);
  if (!form.forward && !form.pairs) {
    time.kernel_us += batch * m * k * BytesAroundGradients(work) / bytes_per_us;
  }
  return time;
}

}  // namespace foretrace
