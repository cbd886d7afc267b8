#pragma once
// How many times as long a kernel takes beside one that holds multiprocessors and moves memory, as
// collectives do: a channel of NCCL is a thread block of 512 threads and more with up to 96
// registers each (NCCL_SIMPLE_MAX_NTHREADS, makefiles/common.mk), which leaves next to nothing of a
// multiprocessor's 65,536. Figures against measurements: calibration/README.md.

#include "simulator/base/units.h"
#include "simulator/cost/operator/kernel_work.h"

namespace foretrace {

struct GpuPeaks;
enum class Precision : unsigned char;

// Of a device, what kernels share.
struct SharedDevice {
  double multiprocessors = 0;
  Bandwidth memory;  // peak
  // GEMMs run by pairs of blocks (clusters), which stay on their multiprocessors and fetch one tile
  // after another: on devices whose tensor instructions a warpgroup issues.
  bool in_pairs = false;
};
SharedDevice SharedBy(const GpuPeaks& device);

// What of it another kernel holds.
struct HeldDevice {
  double multiprocessors = 0;
  // Its blocks are clusters themselves, so that what they leave of a group of multiprocessors is
  // pairs (NCCL since 2.16: four, NCCL_CGA_CLUSTER_SIZE). Otherwise any are held.
  bool in_clusters = true;
  Bandwidth memory;  // that it reads and writes
};

// What a kernel needs of what is shared.
struct KernelDemand {
  // Of GEMMs, whose multiprocessors each work on one at a time. 0: of others, whose time goes with
  // the multiprocessors left to the power of `multiprocessors`.
  double tiles = 0;
  double multiprocessors = 0;
  double memory = 0;  // power of the bandwidth left
  bool operator==(const KernelDemand&) const = default;
};
KernelDemand DemandOf(const GpuPeaks& device, Precision precision, const KernelWork& work);

// At least 1.
double TimesBeside(const KernelDemand& kernel, const SharedDevice& device, const HeldDevice& held);

}  // namespace foretrace
