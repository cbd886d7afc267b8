#include "simulator/cost/traced/launch_place.h"

#include <algorithm>
#include <cmath>

#include "simulator/base/contains.h"
#include "simulator/cost/kernel/gemm_block.h"
#include "simulator/cost/kernel/generated_kernels.h"
#include "simulator/cost/kernel/kernel_names.h"
#include "simulator/cost/kernel/launched_kernels.h"
#include "simulator/cost/kernel/warpgroup_gemm.h"

namespace foretrace {
namespace {

// Norms (PyTorch's, and engines' of root mean squares) and rows of scores or logits: a block each.
// Gradients written in Triton (Liger's ops/rms_norm.py, FlashAttention's ops/triton/layer_norm.py)
// have a block for each multiprocessor, Liger's norms of blocks several rows each.
bool IsRowKernel(std::string_view name) {
  if (name.starts_with("_") && (NamesGradient(name) || ContainsAny(name, {"block_rms_norm"}))) {
    return false;
  }
  return ContainsAny(name, {"layer_norm", "rms_norm", "RowwiseMoments", "cunn_SoftMax"}) &&
         !ContainsAny(name, {"GammaBeta", "gamma_beta"});
}

// Means of contiguous rows (aten/src/ATen/native/cuda/Reduce.cuh: lines of threads reduce a row
// each, one result a thread).
bool IsRowMean(std::string_view name) {
  return ContainsAny(name, {"reduce_kernel<512, 1, "}) && ContainsAny(name, {"MeanOps<"});
}

// Channels of a batch norm: cuDNN's and PyTorch's have a block each, the latter's, where channels
// lie together, a thread of a block (aten/src/ATen/native/cuda/Normalization.cuh); of other kernels
// the grid does not tell.
void ReadNorm(std::string_view name, const LaunchAttr& launch, LaunchPlace& place) {
  if (ContainsAny(name, {"batch_norm_"}) && ContainsAny(name, {"channels_last"})) {
    place.channels = SaturatingProduct({launch.grid[0], launch.block[0]});
    place.channels_rounded = launch.block[0];
  } else if (ContainsAny(name, {"bn_fw_tr_1C11", "bn_bw_1C11", "batch_norm_collect_stati",
                                "batch_norm_transform_input", "batch_norm_backward_kernel",
                                "batch_norm_backward_reduce"})) {
    place.channels = launch.grid[0];
  }
}

// Rows of scores are not those of activations.
bool IsScores(std::string_view name) {
  return ContainsAny(name, {"SoftMax"}) && !ContainsAny(name, {"LogSoftMax"});
}

bool IsComplex(std::string_view name) { return ContainsAny(name, {"complex<float>"}); }

}  // namespace

bool NamesGradient(std::string_view name) {
  return ContainsAny(
      name, {"ackward", "bprop", "_bwd", "bn_bw", "cutlassB", "layer_norm_grad", "dgrad", "wgrad"});
}

int64_t LaunchPlace::Columns(int64_t rows_of_it) const {
  if (rows_of_it < 1) return 0;
  constexpr int64_t kRound = 64;
  const int64_t columns = moved / rows_of_it, round = columns / kRound * kRound;
  if (round > 0 && Moves(SaturatingProduct({round, rows_of_it}))) return round;
  return Moves(SaturatingProduct({columns, rows_of_it})) ? columns : 0;
}

bool LaunchPlace::Holds(int64_t m, int64_t n) const {
  if (tiles <= 0) return true;
  constexpr double kLeast = 0.7;  // of the blocks, which may be launched in whole bands
  const auto fits = [&](int64_t rows_of_it, int64_t columns) {
    const double needed =
        std::ceil(static_cast<double>(rows_of_it) / static_cast<double>(tile_rows)) *
        std::ceil(static_cast<double>(columns) / static_cast<double>(tile_cols));
    return needed <= tiles && needed > kLeast * tiles;
  };
  return fits(m, n) || fits(n, m);
}

int64_t LaunchPlace::Width(int64_t m) const {
  if (tiles <= 0) return 0;
  const double along = std::ceil(static_cast<double>(m) / static_cast<double>(tile_cols));
  return std::llround(tiles / along * static_cast<double>(tile_rows));
}

LaunchPlace PlaceOf(const TraceStore& store, const RankTrace& rank, NodeIndex kernel, int64_t moved,
                    const GpuPeaks& device) {
  LaunchPlace place;
  const LaunchAttr* attr = rank.launch(kernel);
  if (attr == nullptr) return place;
  const std::string_view name = store.name(rank, kernel);
  constexpr int64_t kValues = 2;  // of a complex element
  place.moved = IsComplex(name) ? SaturatingProduct({kValues, moved}) : moved;
  place.rounded = static_cast<int64_t>(static_cast<double>(place.moved) / attr->blocks());
  if (name.find("vectorized_gather_kernel<") != name.npos) place.gathered = attr->grid[0];
  place.copies = moved > 0 && name.find("copy_kernel") != name.npos;
  const auto generated = GeneratedKernelOf(name, *attr);
  if (generated) {
    place.operands = std::lround(generated->read);
    place.rows = generated->rows;
    place.classes = generated->softmax;
    place.copies = place.quantises = generated->quantises;
    return place;
  }
  if (moved > 0) {
    place.operands = TensorsNamed(name) - 1;
    return place;
  }
  ReadNorm(name, *attr, place);
  const bool line = attr->grid[1] == 1 && attr->grid[2] == 1;
  if (line && IsRowKernel(name)) place.rows = attr->grid[0];
  if (line && IsRowMean(name)) {
    place.rows = SaturatingProduct({attr->grid[0], attr->block[1]});
    place.rows_of_block = attr->block[1];
  }
  place.scores = place.rows > 0 && IsScores(name);
  place.classes = place.rows > 0 && ContainsAny(name, {"LogSoftMax"});
  place.attention = IsAttentionKernel(name);
  place.gemm = !place.attention && IsMatrixKernel(name);
  if (!place.gemm) return place;
  const WarpgroupTile group = WarpgroupTileOf(name);
  const GemmBlock block = GemmBlockOf(name);
  const NamedTile tile = StatedTile(name);
  constexpr double kMostTiles = 1e9;
  const double tiles = 1.0 * attr->grid[0] * attr->grid[1];
  if (tiles > kMostTiles) return place;
  if (GoesThroughTiles(device, LaunchOf(store, rank, kernel))) return place;
  place.tile_rows = group.known() ? group.rows : block.known() ? block.rows : tile.rows;
  place.tile_cols = group.known() ? group.cols : block.known() ? block.cols : tile.cols;
  if (place.tile_rows > 0 && place.tile_cols > 0) place.tiles = tiles;
  // Beside parts of a reduction, of which there are few.
  constexpr int64_t kMostParts = 64;
  if (attr->grid[2] > kMostParts) place.batch = attr->grid[2];
  return place;
}

}  // namespace foretrace
