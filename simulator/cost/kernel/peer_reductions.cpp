#include "simulator/cost/kernel/peer_reductions.h"

#include <algorithm>
#include <cmath>

namespace foretrace {
namespace {

// Measured on H100 by the published benchmark of SGLang's kernel (aiconfigurator,
// custom_allreduce), as in `all_reduce` of topologies/engines: a kernel that waits for all once and
// makes one trip of loads, and the share of a device's links that loads reach.
constexpr double kPassUs = 4.5;
constexpr double kLinkShare = 0.65;
// A trip of loads to a peer and back: two ranks there read 8 MiB at 200 GB/s with 36 blocks of 512
// threads, 295 KB under way.
constexpr double kTripUs = 1.5;
constexpr double kVector = 16;  // bytes of a load

}  // namespace

std::optional<PeerReduction> PeerReductionOf(std::string_view kernel) {
  struct Known {
    std::string_view name;
    PeerReduction reduction;
  };
  // Blocks and threads of PyTorch: CUDASymmetricMemoryOps.cu (BSD-3-Clause), which launches no more
  // whatever the size. The engines' kernels launch enough for their links.
  static constexpr Known kKnown[] = {
      {"multimem_all_reduce_kernel", {true, true, 2, 8 * 1024}},
      {"multimem_one_shot_all_reduce_kernel", {true, false, 2, 8 * 1024}},
      {"multimem_one_shot_reduce_kernel", {true, false, 2, 8 * 1024}},
      {"one_shot_all_reduce_kernel", {false, false, 2, 8 * 512}},
      {"two_shot_all_reduce_kernel", {false, true, 2, 24 * 512}},
      {"cross_device_reduce_1stage", {false, false, 1, 0}},
      {"cross_device_reduce_2stage", {false, true, 2, 0}},
  };
  for (const Known& known : kKnown) {
    if (kernel.find(known.name) != std::string_view::npos) return known.reduction;
  }
  return std::nullopt;
}

std::optional<SimTime> TimeOf(const PeerReduction& reduction, const DeviceLinks& links,
                              int32_t ranks, Bytes bytes) {
  const double rate = links.total().bytes_per_second() * kLinkShare;
  if (rate <= 0) return std::nullopt;
  const auto n = static_cast<double>(ranks);
  const double all = static_cast<double>(bytes.count());
  const double summed = reduction.shares ? all / n : all;  // by one rank
  // Into a device, or out of it where that is more: values that are added up (by the switch once
  // for every rank that asks, from each device), and shares' sums.
  const double moved = reduction.in_switch
                           ? (reduction.shares ? all + summed : n * all)
                           : (reduction.shares ? 2 * (all - summed) : (n - 1) * all);
  double trips_us = 0;
  if (reduction.threads > 0) {
    const double vectors = std::ceil(summed / kVector);
    trips_us = std::ceil(vectors / static_cast<double>(reduction.threads)) * kTripUs;
    trips_us = std::max(0.0, trips_us - kTripUs);  // one is in the pass
  }
  return SimTime::FromUs(reduction.barriers * kPassUs + std::max(trips_us, moved / rate * 1e6));
}

}  // namespace foretrace
