#include "simulator/cost/kernel/kernels_beside.h"

#include <algorithm>
#include <cmath>

#include "simulator/cost/kernel/analytic_gemm.h"
#include "simulator/cost/kernel/gpu_peaks.h"
#include "simulator/cost/kernel/roofline.h"

namespace foretrace {
namespace {

// Groups of multiprocessors (GPCs) that a cluster lies in one of ("NVIDIA H100 Tensor Core GPU
// Architecture": 8). Where any multiprocessors are held, a group is left with an odd number of them
// half the time, of which one finds no partner: a quarter of a pair a group.
constexpr double kGroups = 8, kPairsLostInGroup = 0.25;

// Of a wave of tiles, how much shorter it is the fewer multiprocessors it runs on, each of which
// has more of the power and the caches: least error on the same half of the GEMMs.
constexpr double kFewer = 0.15;

// What of the memory's peak large copies attain.
constexpr double kAttained = 0.9;
// The most that a kernel beside loses of it, where a collective would take all.
constexpr double kMostHeld = 0.8;

// Tiles that run one after another on `slots` multiprocessors or pairs of them, of `all`, in full
// waves of all.
struct Waves {
  double all, last;  // last: how much of a last wave goes with its tiles

  double Of(double tiles, double slots) const {
    const double full = std::floor(tiles / slots), rest = tiles - full * slots;
    const double each = 1 - kFewer + kFewer * slots / all;
    return full * each + (rest > 0 ? each * (1 - last + last * rest / slots) : 0);
  }
};

// Blocks that stay fetch tiles from a counter when they have done their first one. Those that found
// no multiprocessors start when others end, as all other tiles are done, and do their first one
// then (nvjet_sm90, whose counter a memset clears before: one wave more beside a single held
// multiprocessor than without).
double StayingWaves(double tiles, double slots, double all) {
  const Waves waves{all, kFewer};
  const double launched = std::min(tiles, all), late = std::max(launched - slots, 0.0);
  return waves.Of(tiles - late, std::min(slots, launched)) + (late > 0 ? waves.Of(late, slots) : 0);
}

// One block a tile, as many at a time as fit. The share of a last wave is AnalyticGemm's of such
// kernels.
double PassingWaves(double tiles, double slots, double all) {
  constexpr double kLast = 0.8;
  return Waves{all, kLast}.Of(tiles, slots);
}

double GemmTimes(double tiles, const SharedDevice& device, const HeldDevice& held) {
  const double left = std::max(device.multiprocessors - held.multiprocessors, 2.0);
  if (!device.in_pairs) {
    return PassingWaves(tiles, left, device.multiprocessors) /
           PassingWaves(tiles, device.multiprocessors, device.multiprocessors);
  }
  const double pairs = std::ceil(tiles / 2),
               all = std::max(std::floor(device.multiprocessors / 2), 1.0);
  // Few that are held leave few groups odd.
  const double odd =
      held.in_clusters ? 0 : kPairsLostInGroup * std::min(kGroups, 2 * held.multiprocessors);
  const double slots = std::max(std::floor(left / 2 - odd), 1.0);
  return StayingWaves(pairs, slots, all) / StayingWaves(pairs, all, all);
}

// Powers of what is left of multiprocessors and of the memory's bandwidth: least squares on every
// second shape of calibration/h100-sxm5-nvswitch/measurements/beside.csv.xz, beside up to 32 blocks
// (planning_unit_test --gtest_filter=KernelsBeside*, which holds them to that).
constexpr KernelDemand kStreaming{0, 0.22, 0.9};

KernelDemand Powers(const KernelWork& work) {
  switch (work.kind) {
    case KernelKind::kGemm:
    case KernelKind::kBatchedGemm:
    case KernelKind::kConvolution:
      return {0, 0, 0.33};
    case KernelKind::kAttention:
      if (work.pass == Direction::kForward) return {0, 0.8, 0.09};
      return {0, 0.7, 0.37};
    case KernelKind::kSoftmax:
      return {0, 0.97, 0.3};
    case KernelKind::kLayerNorm:
    case KernelKind::kBatchNorm:
      return {0, 0.48, 0.92};
    default:
      return kStreaming;
  }
}

}  // namespace

SharedDevice SharedBy(const GpuPeaks& device) {
  return {device.sms, Bandwidth::GBps(device.dram_gbps),
          device.accelerator.instructions.by_warpgroups()};
}

KernelDemand DemandOf(const GpuPeaks& device, Precision precision, const KernelWork& work) {
  KernelDemand demand = Powers(work);
  if (IsGemm(work.kind)) {
    const GemmTime time = GemmRoofline(AnalyticGemm(device, precision), device, precision, work);
    if (time.memory_us > time.compute_us) return kStreaming;
    demand.tiles = std::max(std::round(time.waves * device.sms), 1.0);
  }
  return demand;
}

double TimesBeside(const KernelDemand& kernel, const SharedDevice& device, const HeldDevice& held) {
  const double share = std::min(
      held.memory.bytes_per_second() / (kAttained * device.memory.bytes_per_second()), kMostHeld);
  const double memory = std::pow(1 - share, -kernel.memory);
  const double left = std::max(device.multiprocessors - held.multiprocessors, 1.0);
  const double compute = kernel.tiles > 0
                             ? GemmTimes(kernel.tiles, device, held)
                             : std::pow(device.multiprocessors / left, kernel.multiprocessors);
  return std::max(memory * compute, 1.0);
}

}  // namespace foretrace
