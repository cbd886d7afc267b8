#include "simulator/cost/kernel/attention_roofline.h"

#include <algorithm>
#include <cmath>

#include "simulator/cost/kernel/vector_rates.h"

namespace foretrace {
namespace {

// Queries of a thread block forward, keys backward; the other side passes by in tiles of as many.
// Under a causal mask a tile on the diagonal is computed whole.
constexpr double kTile = 128;
constexpr double kLargestTileIntensity = 128.0 * 256 / (128 + 256);
constexpr double kForwardGemms = 2, kBackwardGemms = 5;
// Backward, warpgroups multiply tiles of 64 x 64, whose operands pass through shared memory for
// each, as names of cuDNN's kernels for Hopper state ("flash_bprop_wgmma_f16_knob_26_64x64x128",
// H100, traces/README.md, "Captured").
constexpr double kBackwardTileIntensity = 64.0 * 64 / (64 + 64);

// Instructions a score that the backward pass has beyond its exponentials: difference, product,
// mask, conversions of P and dS, their stores, the sums of dQ. Unlike forward, registers leave no
// second block whose GEMMs could run meanwhile. What published kernels need on A100
// (FlashAttention-2, 2023, figure 6), H100 (FlashAttention-3, 2024, figure 6) and B200 amounts to
// 10 to 16.
constexpr double kBackwardInstructions = 12;

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

// Bytes of an element of the queries that FlashAttention's and cuDNN's backward pass moves before
// and after its blocks: dO and O are read for their product while fp32 sums of dQ are cleared;
// those are read again and rounded to dQ.
double BytesAround(const KernelWork& work) {
  constexpr double kSum = 4;
  const double size = static_cast<double>(std::max<int64_t>(ElementSize(work.dtype), 1));
  return 2 * size + kSum + kSum + size;
}

// Of a score of FlashAttention-2 forward: maximum, scaled difference, sum, conversion, masks. And
// of a block, however few keys it has: loads queries, fills its pipeline, writes its results.
// BERT's kernels (H100, traces/README.md) set the latter; ViT's and Qwen1.5's took no part
// (docs/accuracy.md).
constexpr double kForwardInstructions = 5.5, kBlockCycles = 10250;
// Keys that a step takes (csrc/flash_attn/src/flash_fwd_launch_template.h): fewer for wide heads. A
// step rescales the results of all queries, and waits at its barriers and for the shuffles between
// its two GEMMs (Wan2.1's heads of 128, H100, traces/README.md).
constexpr double kKeysOfStep = 128, kKeysOfWideStep = 64, kWidestOfLongSteps = 64;
constexpr double kStepCycles = 220;

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

// FlashAttention-2 forward where GEMMs, exponentials and the rest of a tile of scores follow
// each other: blocks of 128 queries, keys in tiles of 128, a multiprocessor's blocks in turn.
double ForwardByWarpsUs(const GpuPeaks& device, Precision precision, const KernelWork& work) {
  const VectorRates rates = VectorRatesOf(device);
  const auto real = [](int64_t n) { return static_cast<double>(std::max<int64_t>(n, 1)); };
  const double blocks = real(work.batch) * std::ceil(real(work.m) / kTile);
  double tiles = std::ceil(real(work.n) / kTile);
  const double scores = work.flop.count() / (2 * real(work.k) * kForwardGemms);
  const bool causal = scores < 0.75 * real(work.batch) * real(work.m) * real(work.n);
  if (causal) tiles = (tiles + 1) / 2;
  const double rate = device.peak_tflops(precision) * 1e6 * WarpInstructionShare(device, work);
  const double keys = real(work.k) <= kWidestOfLongSteps ? kKeysOfStep : kKeysOfWideStep;
  const double instructions = kForwardInstructions + real(work.k) / keys;
  const double tile_us =
      kTile * kTile * device.sms *
          (2 * kForwardGemms * real(work.k) / rate + 1 / rates.exponentials_per_us +
           instructions / rates.instructions_per_us) +
      kTile / keys * kStepCycles / rates.cycles_per_us;
  return std::max(blocks / device.sms, 1.0) *
         (kBlockCycles / rates.cycles_per_us + tiles * tile_us);
}

}  // namespace

GemmTime AttentionRoofline(const GemmParameters& p, const GpuPeaks& device, Precision precision,
                           const KernelWork& work) {
  const bool forward = work.pass == Direction::kForward;
  const double gemms = forward ? kForwardGemms : kBackwardGemms;
  const auto real = [](int64_t n) { return static_cast<double>(std::max<int64_t>(n, 1)); };
  const double batch = real(work.batch), m = real(work.m), n = real(work.n), k = real(work.k);
  const double scores = work.flop.count() / (2 * k * gemms);
  const double masked = scores < 0.75 * batch * m * n ? 1 + kTile / n : 1;
  // A tile's GEMMs load one row of keys and one of values for each key and use both for all
  // queries of the block, which is more intense than any tile of a GEMM; what is left to limit them
  // is what limits the GEMM's largest.
  const bool persistent = device.accelerator.instructions.by_warpgroups();
  const bool in_parts = precision == Precision::kFloat32 && device.tf32_tflops > 0;
  const bool small_tiles = !forward && persistent && !PairsTiles(device) && !in_parts &&
                           WarpInstructionShare(device, work) == 1;
  const double intensity = small_tiles ? kBackwardTileIntensity : kLargestTileIntensity;
  double rate = device.peak_tflops(precision) * 1e6 * p.compute_efficiency * intensity /
                (intensity + p.tile_intensity);
  if (in_parts) {
    const double warps = device.accelerator.instructions.warp_gemms;
    rate = std::min(rate, device.tf32_tflops * 1e6 * warps / kProductsOfFloat * kFloatShare);
  }
  const VectorRates vector = VectorRatesOf(device);
  // One query of each sequence leaves nothing to take turns with.
  const bool in_turn = forward && persistent && !PairsTiles(device) && !in_parts && work.m > 1;
  double between = 1 / vector.exponentials_per_us;
  if (!forward) between += kBackwardInstructions / vector.instructions_per_us;
  if (in_turn) between += kForwardInstructions / vector.instructions_per_us;
  GemmTime time;
  time.waves = batch * std::ceil((forward ? m : n) / kTile) / device.sms;
  const double full = std::ceil(time.waves);
  // A block for each multiprocessor takes whole tiles, one after the other.
  double filled = in_parts     ? std::max(time.waves, 1.0)
                  : persistent ? full
                               : full + p.partial_wave * (std::max(time.waves, 1.0) - full);
  if (masked > 1 && persistent && !PairsTiles(device)) filled *= 1 + kUneven / full;
  // Of one score; the GEMMs of one of two tiles hide the exponentials of the other.
  const double multiplied = 2 * k * gemms / rate;
  const double score_us = forward && PairsTiles(device) ? std::max(multiplied, between)
                          : in_turn ? SmoothSum(multiplied, between, kTurnsPower)
                                    : multiplied + between;
  time.compute_us = masked * scores * score_us * filled / time.waves;
  // Under a causal mask blocks differ, and the longest is no faster than one multiprocessor.
  if (masked > 1) {
    const double longest = (forward && PairsTiles(device) ? 2 : 1) * kTile * (forward ? n : m);
    time.compute_us = std::max(time.compute_us, longest * device.sms * score_us);
  }
  const double bytes_per_us = device.dram_gbps * 1e3 * p.bandwidth_efficiency;
  time.memory_us = static_cast<double>(work.total_bytes()) / bytes_per_us;
  // However few keys a block has, it loads its queries, fills its pipeline and writes its results;
  // those of one multiprocessor follow each other.
  const double cycles = !persistent   ? 0
                        : in_turn     ? kForwardBlockCycles
                        : forward     ? kForwardPairCycles
                        : small_tiles ? kBackwardBlockCycles
                                      : kBackwardPairCycles;
  const double block_us = p.block_us > 0 ? p.block_us : cycles / vector.cycles_per_us;
  time.compute_us += block_us * time.waves;
  if (forward && WarpInstructionShare(device, work) < 1) {
    time.compute_us = ForwardByWarpsUs(device, precision, work);
    time.kernel_us = SmoothMax(time.compute_us, time.memory_us);
    return time;
  }
  time.kernel_us = p.base_us + SmoothSum(time.compute_us, time.memory_us, p.overlap_power);
  if (!forward && !PairsTiles(device))
    time.kernel_us += batch * m * k * BytesAround(work) / bytes_per_us;
  return time;
}

}  // namespace foretrace
