#include "simulator/cost/kernel/warpgroup_gemm.h"

#include <algorithm>
#include <cmath>

#include "simulator/base/contains.h"
#include "simulator/cost/kernel/gemm_block.h"
#include "simulator/cost/kernel/kernel_names.h"
#include "simulator/cost/kernel/name_numbers.h"
#include "simulator/cost/kernel/roofline.h"
#include "simulator/cost/kernel/sizes.h"
#include "simulator/cost/kernel/vector_rates.h"

namespace foretrace {
namespace {

// Between two steps of the reduction a warpgroup waits for its tensor instructions and for the
// barrier of the next operands, and frees the last ones. Set, with the next, by the twelve GEMMs of
// gpt2-small-b8-bf16 (H100, cuBLAS 13; traces/README.md, "Captured"); the other captured jobs and
// cuBLAS 12's kernels in other recordings judge (calibration/README.md).
constexpr double kStepCycles = 93;
// Results pass from registers through shared memory to L2 at this rate of a multiprocessor.
constexpr double kResultBytesPerCycle = 17;
// L2's to a multiprocessor ("Dissecting the NVIDIA Volta GPU architecture via microbenchmarking",
// 2018, and later whitepapers); a cluster's blocks share what they read.
constexpr double kOperandBytesPerCycle = 64;
constexpr double kOverlapPower = 4;  // GemmParameters::overlap_power
// Of what a board sustains, the most that kernels among lighter ones reach
// (cost/power/power_clock.h has what is left after many GEMMs): 777 TFLOP/s in the median of large
// GEMMs of 0.5 to 2 ms where 720 last (aiconfigurator's H100).
constexpr double kOfSustained = 1.08;

// Behind "nvjet_": what the chip and the types are called, then the tile.
WarpgroupTile JetTileOf(std::string_view name, std::string_view rest) {
  size_t at = rest.find('_');
  while (at != rest.npos && !(at + 1 < rest.size() && rest[at + 1] >= '0' && rest[at + 1] <= '9')) {
    at = rest.find('_', at + 1);
  }
  if (at == rest.npos) return {};
  rest.remove_prefix(at + 1);
  WarpgroupTile tile;
  int64_t stages = 0;
  if (!TakePair(rest, tile.rows, tile.cols) || !rest.starts_with('_')) return {};
  rest.remove_prefix(1);
  if (!TakePair(rest, tile.depth, stages) || !rest.starts_with('_')) return {};
  rest.remove_prefix(1);
  if (!TakePair(rest, tile.cluster_rows, tile.cluster_cols)) {
    tile.cluster_rows = tile.cluster_cols = 1;  // "nvjet_sss_128x128_32x5_v_bz_TNN"
  }
  tile.shared = ContainsAny(name, {"_coopA", "_coopB"});
  tile.split = ContainsAny(name, {"_splitK"});
  return tile;
}

WarpgroupTile XmmaTileOf(std::string_view name) {
  constexpr std::string_view kGroups = "_warpgroupsize";
  const NamedTile stated = StatedTile(name);  // "..._tilesize128x128x64_..."
  const size_t groups = name.find(kGroups);
  if (!stated.known() || groups == name.npos) return {};
  std::string_view rest = name.substr(groups + kGroups.size());
  int64_t down = 0, across = 0;
  if (!TakePair(rest, down, across)) return {};
  WarpgroupTile tile{stated.rows, stated.cols, stated.depth};
  tile.shared = down * across > 1;
  return tile;
}

}  // namespace

WarpgroupTile WarpgroupTileOf(std::string_view name) {
  constexpr std::string_view kJet = "nvjet_";
  const size_t jet = name.find(kJet);
  if (jet != name.npos) return JetTileOf(name, name.substr(jet + kJet.size()));
  return ContainsAny(name, {"sm90_xmma_gemm_"}) ? XmmaTileOf(name) : WarpgroupTile();
}

double WarpgroupGemmUs(const GpuPeaks& device, Precision precision, double bandwidth_efficiency,
                       const WarpgroupTile& tile, const KernelWork& work, double launched) {
  const double cycles_per_us = VectorRatesOf(device).cycles_per_us;
  const double rows = Positive(tile.rows), cols = Positive(tile.cols), depth = Positive(tile.depth);
  const double down = Positive(tile.cluster_rows), across = Positive(tile.cluster_cols);
  const double element_bytes = Positive(ElementSize(work.dtype));
  // Of clusters, each of which takes so many tiles at once.
  const double tiles = Positive(work.batch) * std::ceil(std::ceil(Positive(work.n) / rows) / down) *
                       std::ceil(std::ceil(Positive(work.m) / cols) / across);
  const double most = std::max(std::floor(device.sms / (down * across)), 1.0);
  const double clusters =
      launched > 0 ? std::max(std::round(launched / (down * across)), 1.0) : std::min(tiles, most);
  const double split = tile.split ? std::max(std::round(clusters / tiles), 1.0) : 1;
  const double rounds = std::ceil(tiles * split / clusters);
  const double steps = std::ceil(std::ceil(Positive(work.k) / depth) / split);

  const double flop_per_us = device.peak_tflops(precision) * 1e6 / device.sms;
  const double multiply_us = 2 * rows * cols * depth / flop_per_us + kStepCycles / cycles_per_us;
  const double operand_bytes = (rows / across + cols / down) * depth * element_bytes;
  const double step_us =
      std::max(multiply_us, operand_bytes / kOperandBytesPerCycle / cycles_per_us);
  const double results_us = rows * cols * element_bytes / kResultBytesPerCycle / cycles_per_us;
  const double compute_us = rounds * steps * step_us + (tile.shared ? rounds : 1) * results_us;
  const double bytes_per_us = device.dram_gbps * 1e3 * bandwidth_efficiency;
  const double us =
      GemmStartUs(device) +
      SmoothSum(compute_us, static_cast<double>(work.total_bytes()) / bytes_per_us, kOverlapPower);
  const double sustained = device.sustained_tflops(precision) * kOfSustained;
  return sustained > 0 ? std::max(us, work.flop.count() / (sustained * 1e6)) : us;
}

}  // namespace foretrace
