#pragma once
// GEMMs of Hopper and later by the kernel that a recording shows: the tile of results that its name
// states, and how many blocks were launched, each of which goes through several tiles.

#include <cstdint>
#include <string_view>

#include "simulator/cost/kernel/gpu_peaks.h"
#include "simulator/cost/operator/kernel_work.h"

namespace foretrace {

// What a thread block computes at a time: rows x cols results (rows lie along n of y[m,n], since
// cuBLAS is column-major), `depth` of the reduction a step.
struct WarpgroupTile {
  int64_t rows = 0, cols = 0, depth = 0;
  // Blocks of a cluster, whose tiles lie side by side.
  int64_t cluster_rows = 1, cluster_cols = 1;
  // All warpgroups work on one tile and write it before the next; else they take turns, each with a
  // tile of its own, and one multiplies while another writes.
  bool shared = false;
  bool split = false;  // blocks may share the reduction of a tile
  bool known() const { return rows > 0; }
};

// cuBLAS's "nvjet_sm90_tst_192x128_64x5_1x2_h_bz_coopB_bias_TNT" (tile, depth x stages, cluster)
// and "sm90_xmma_gemm_..._tilesize128x128x64_warpgroupsize1x1x1_...".
WarpgroupTile WarpgroupTileOf(std::string_view name);

// `work` of that kernel. `launched`: its blocks, of which a multiprocessor holds one; 0: not known.
// `bandwidth_efficiency`: of the DRAM's peak.
double WarpgroupGemmUs(const GpuPeaks& device, Precision precision, double bandwidth_efficiency,
                       const WarpgroupTile& tile, const KernelWork& work, double launched);

}  // namespace foretrace
