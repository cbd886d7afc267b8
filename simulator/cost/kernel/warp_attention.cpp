#include "simulator/cost/kernel/warp_attention.h"

#include <algorithm>
#include <cmath>

#include "simulator/cost/kernel/attention_scores.h"
#include "simulator/cost/kernel/vector_rates.h"

namespace foretrace {
namespace {

// A block, however few keys it has, loads queries, fills its pipeline and writes its results. Set
// by BERT's kernels (H100, traces/README.md); ViT's and Qwen1.5's took no part (docs/accuracy.md).
constexpr double kBlockCycles = 10250;
// Of the gradients a block writes those of keys and values, with no other on its multiprocessor.
// Set by the even half (CRC-32 of the shape) of an H100's rows of
// calibration/h100-sxm5-nvswitch/measurements/kernels.csv.xz; the odd half judges.
constexpr double kGradientBlockCycles = 26000;

// Keys forward, queries backward that a step takes
// (csrc/flash_attn/src/flash_fwd_launch_template.h, flash_bwd_launch_template.h): fewer for wide
// heads. A step rescales the results of all queries, and waits at its barriers and for the shuffles
// between its GEMMs (Wan2.1's heads of 128, H100, traces/README.md).
constexpr double kStep = 128, kWideStep = 64, kWidestOfLongSteps = 64, kStepCycles = 220;

// Two blocks of 128 threads, each of which has 255 registers, share a multiprocessor forward: the
// start of one hides behind the other's tiles. Less where sizes fill no whole tiles, whose copies
// are predicated (Is_even_MN, Is_even_K of the same files), as Qwen1.5's 559 queries set it.
constexpr double kSharedStart = 0.5, kSharedPredicatedStart = 0.75;

// Kernels are compiled for heads of every 32 elements up to 128, then of every 64
// (csrc/flash_attn/src/static_switch.h, HEADDIM_SWITCH); others compute with zeros.
int64_t CompiledHead(int64_t head) {
  const int64_t step = head <= 128 ? 32 : 64;
  return (std::max<int64_t>(head, 1) + step - 1) / step * step;
}

double Real(int64_t n) { return static_cast<double>(std::max<int64_t>(n, 1)); }

struct Blocks {
  double of_each = 0;     // for each multiprocessor
  double tiles = 0;       // of the longest, each of 128 queries and as many keys
  double mean_tiles = 0;  // the longest ones' but for a causal mask
  double start_us = 0;    // of a block alone on its multiprocessor, whatever its tiles
  double shared_us = 0;   // of each of two
  double tile_us = 0;

  double AloneUs() const { return start_us + tiles * tile_us; }
  double PairUs() const { return 2 * (shared_us + tiles * tile_us); }
};

// Two by two, while there are that many: those of one length begin and end together, up to the
// last that has its multiprocessor to itself. Under a mask blocks differ, the longest begin last,
// and on average half of one is left when all others have ended.
double ForwardUs(const Blocks& b) {
  if (b.mean_tiles < b.tiles) {
    if (b.of_each <= 1) return b.AloneUs();
    const double mean_us = b.shared_us + b.mean_tiles * b.tile_us;
    return std::max(b.of_each * mean_us + b.PairUs() / 2, b.AloneUs());
  }
  const double pairs = std::floor(b.of_each / 2), left = b.of_each - 2 * pairs;
  return pairs * b.PairUs() + (left > 1 ? b.PairUs() : left > 0 ? b.AloneUs() : 0);
}

// Blocks of gradients have their multiprocessor to themselves: two would need more registers.
double BackwardUs(const Blocks& b) {
  if (b.mean_tiles == b.tiles || b.of_each <= 1) return std::ceil(b.of_each) * b.AloneUs();
  return b.of_each * (b.start_us + b.mean_tiles * b.tile_us) + b.AloneUs() / 2;
}

// Of 128 queries and as many keys, alone on a multiprocessor.
double TileUs(const GpuPeaks& device, Precision precision, const KernelWork& work) {
  constexpr double kSumBytes = 4, kSectorBytes = 32;
  const bool forward = work.pass == Direction::kForward;
  const VectorRates rates = VectorRatesOf(device);
  const double head = Real(CompiledHead(work.k));
  const double step = head <= kWidestOfLongSteps ? kStep : kWideStep;
  const double gemms = forward ? kForwardGemms : kBackwardGemms;
  const double peak = device.peak_tflops(precision) * 1e6 * WarpInstructionShare(device, work);
  const double instructions =
      forward ? kAttentionInstructions + head / step : kAttentionGradientInstructions;
  const double score_us = 2 * gemms * head / peak + 1 / rates.exponentials_per_us +
                          instructions / rates.instructions_per_us;
  const double us = kAttentionTile * kAttentionTile * device.sms * score_us +
                    kAttentionTile / step * kStepCycles / rates.cycles_per_us;
  if (forward) return us;
  // Blocks of all keys add to the same sums of the queries' gradients, in L2.
  const double sectors = kAttentionTile * head * kSumBytes / kSectorBytes * device.sms;
  return us + ScatteredUs(device, std::llround(sectors));
}

Blocks BlocksOf(const GpuPeaks& device, Precision precision, const KernelWork& work) {
  const bool forward = work.pass == Direction::kForward;
  const double along = Real(forward ? work.m : work.n), across = Real(forward ? work.n : work.m);
  Blocks b;
  b.of_each = Real(work.batch) * std::ceil(along / kAttentionTile) / device.sms;
  b.tiles = b.mean_tiles = std::ceil(across / kAttentionTile);
  if (Scores(work) < 0.75 * Real(work.batch) * along * across) b.mean_tiles = (b.tiles + 1) / 2;
  const bool predicated = std::fmod(along, kAttentionTile) != 0 ||
                          std::fmod(across, kAttentionTile) != 0 || CompiledHead(work.k) != work.k;
  b.start_us =
      (forward ? kBlockCycles : kGradientBlockCycles) / VectorRatesOf(device).cycles_per_us;
  b.shared_us = b.start_us * (predicated ? kSharedPredicatedStart : kSharedStart);
  b.tile_us = TileUs(device, precision, work);
  return b;
}

}  // namespace

GemmTime WarpAttention(const GpuPeaks& device, Precision precision, const KernelWork& work,
                       double bandwidth_efficiency) {
  const Blocks blocks = BlocksOf(device, precision, work);
  const bool forward = work.pass == Direction::kForward;
  const double bytes_per_us = device.dram_gbps * 1e3 * bandwidth_efficiency;
  GemmTime time;
  time.waves = blocks.of_each;
  time.memory_us = static_cast<double>(work.total_bytes()) / bytes_per_us;
  time.compute_us = forward ? ForwardUs(blocks) : BackwardUs(blocks);
  time.kernel_us = SmoothMax(time.compute_us, time.memory_us);
  if (!forward) {
    const double start_us =
        device.accelerator.instructions.shortest_kernel.us() + ColdStartUs(device, 1);
    time.kernel_us += 2 * start_us + Real(work.batch) * Real(work.m) * Real(work.k) *
                                         BytesAroundGradients(work) / bytes_per_us;
  }
  return time;
}

}  // namespace foretrace
