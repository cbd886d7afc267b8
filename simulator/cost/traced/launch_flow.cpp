#include "simulator/cost/traced/launch_flow.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "simulator/base/contains.h"
#include "simulator/cost/kernel/gemm_block.h"
#include "simulator/cost/kernel/generated_kernels.h"
#include "simulator/cost/kernel/kernel_names.h"
#include "simulator/cost/kernel/warpgroup_gemm.h"

namespace foretrace {
namespace {

constexpr size_t kRowsWithin = 24;
constexpr size_t kGradientsWithin = 3;  // of one layer, with what adds up the first one's parts

// Norms (PyTorch's, and engines' of root mean squares) and rows of scores or logits: a block each.
bool IsRowKernel(std::string_view name) {
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

// Kernels of forward passes, and of optimizers, behind which the next one begins.
bool NamesForward(std::string_view name) {
  return ContainsAny(name, {"forward", "Forward", "fprop", "_fwd", "bn_fw", "cutlassF",
                            "layer_norm_kernel", "rms_norm", "RowwiseMoments", "multi_tensor_apply",
                            "EmbeddingBag_updateOutput", "indexFuncLargeIndex<"});
}

bool IsComplex(std::string_view name) { return ContainsAny(name, {"complex<float>"}); }

// Of what most matrix kernels compute in.
Bytes ElementOf(const TraceStore& store, const RankTrace& rank) {
  int64_t half = 0, others = 0;
  for (uint32_t i = 0; i < rank.size(); ++i) {
    const NodeIndex node(i);
    if (rank.kind(node) != NodeKind::kKernel) continue;
    const KernelTraits traits = TraitsOfKernel(store.name(rank, node));
    if (traits.role != KernelRole::kMatmul) continue;
    const bool small =
        traits.precision == Precision::kHalf || traits.precision == Precision::kFloat8;
    ++(small ? half : others);
  }
  return Bytes(ElementSize(half > others ? DType::kFloat16 : DType::kFloat32));
}

}  // namespace

int64_t Most(const std::map<int64_t, int64_t>& counts) {
  const auto at = std::ranges::max_element(
      counts, [](const auto& a, const auto& b) { return a.second < b.second; });
  return at == counts.end() ? 0 : at->first;
}

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

LaunchFlow::LaunchFlow(const TraceStore& store, const RankTrace& rank, const GpuPeaks& device)
    : store_(store),
      rank_(rank),
      moved_(store, rank, device, ElementsOfThread(store, rank)),
      element_(ElementOf(store, rank)),
      weights_(store, rank, moved_, element_) {
  const auto elements = moved_.elements();
  places_.reserve(elements.size());
  absl::flat_hash_map<std::pair<uint32_t, const LaunchAttr*>, LaunchPlace> known;
  for (size_t i = 0; i < elements.size(); ++i) {
    const NodeIndex node = order()[i];
    const auto [at, added] = known.try_emplace({rank.name(node).value, rank.launch(node)});
    if (added) at->second = PlaceOf(node, elements[i], device);
    places_.push_back(at->second);
  }
  JoinParts();
  FindCopies();
  FindPasses();
  FindTypical();
}

// Whether a kernel goes on with the tensor that the one before passed over a part of: one call's,
// or, without calls, parts as large as those that a tensor of more than 2^31 bytes is halved into
// (aten/src/ATen/TensorIterator.cpp, with_32bit_indexing).
bool LaunchFlow::SamePart(size_t a, size_t b) const {
  constexpr int64_t kLeast = int64_t{1} << 27;  // elements
  if (!SameStream(a, b) || name(a) != name(b) || places_[b].moved == 0) return false;
  const NodeIndex launcher = rank_.launcher(order()[a]), other = rank_.launcher(order()[b]);
  if (!launcher.valid() || !other.valid()) return false;
  const NodeIndex call = rank_.parent(launcher);
  if (call.valid() && rank_.kind(call) == NodeKind::kCpuOp) return call == rank_.parent(other);
  return launcher == other && places_[b].moved >= kLeast;
}

void LaunchFlow::JoinParts() {
  for (size_t first = 0; first < places_.size();) {
    size_t end = first + 1;
    int64_t moved = places_[first].moved;
    while (moved > 0 && end < places_.size() && SamePart(first, end)) {
      moved = std::min(moved + places_[end].moved, int64_t{1} << 62);
      ++end;
    }
    const size_t parts = end - first;
    for (; first < end; ++first) {
      places_[first].moved = moved;
      places_[first].parts = parts;
    }
  }
}

// Nodes are ordered by start.
void LaunchFlow::FindCopies() {
  int64_t copied = 0;
  for (uint32_t n = 0; n < rank_.size(); ++n) {
    const NodeIndex node(n);
    if (rank_.kind(node) == NodeKind::kMemcpy) {
      const WorkAttr* work = rank_.work(node);
      const MemcpyKind kind = rank_.memcpy_kind(node);
      const bool in =
          kind == MemcpyKind::kHostToDevicePinned || kind == MemcpyKind::kHostToDevicePageable;
      if (in && copied == 0 && work != nullptr) copied = work->bytes.count();
    } else if (rank_.kind(node) == NodeKind::kKernel) {
      if (copied > 0) copied_[n] = copied;
      copied = 0;
    }
  }
}

int64_t LaunchFlow::Copied(size_t i) const {
  const auto found = copied_.find(order()[i].value);
  return found == copied_.end() ? 0 : found->second;
}

void LaunchFlow::FindPasses() {
  bool backward = false;
  for (size_t i = 0; i < places_.size(); ++i) {
    if (i == 0 || !SameStream(i, i - 1)) backward = false;
    if (NamesGradient(name(i))) {
      backward = true;
    } else if (backward && NamesForward(name(i))) {
      backward = false;
    } else if (!backward && IsWeightGradient(i)) {
      backward = true;
      // The input's comes before, as do those of layers behind, some of which have no such sum.
      for (size_t p = i; p-- > 0 && SameStream(p, i) && !backward_[p];) {
        if (!places_[p].gemm) continue;
        if (ContainsAny(name(p), {"_tn", "_TN"})) break;
        if (SumsOverRows(name(p)) == false)
          std::fill(backward_.begin() + static_cast<ptrdiff_t>(p), backward_.end(), true);
      }
    }
    backward_.push_back(backward);
  }
}

// Sums over rows, but of Winograd's tiles, are gradients of weights alone.
bool LaunchFlow::IsWeightGradient(size_t i) const {
  if (!places_[i].gemm || !SumsOverRows(name(i)).value_or(false)) return false;
  return std::ranges::none_of(Before(i, kGradientsWithin),
                              [&](size_t p) { return ContainsAny(name(p), {"inograd"}); });
}

LaunchPlace LaunchFlow::PlaceOf(NodeIndex node, int64_t moved, const GpuPeaks& device) const {
  LaunchPlace place;
  const LaunchAttr* attr = rank_.launch(node);
  if (attr == nullptr) return place;
  const std::string_view name = store_.name(rank_, node);
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
  if (GoesThroughTiles(device, LaunchOf(store_, rank_, node))) return place;
  place.tile_rows = group.known() ? group.rows : block.known() ? block.rows : tile.rows;
  place.tile_cols = group.known() ? group.cols : block.known() ? block.cols : tile.cols;
  if (place.tile_rows > 0 && place.tile_cols > 0) place.tiles = tiles;
  // Beside parts of a reduction, of which there are few.
  constexpr int64_t kMostParts = 64;
  if (attr->grid[2] > kMostParts) place.batch = attr->grid[2];
  return place;
}

// The rows that an element-wise kernel beside has round columns for.
void LaunchFlow::FindMeans() {
  constexpr int64_t kRound = 64, kMostLines = 1024;
  for (size_t i = 0; i < places_.size(); ++i) {
    LaunchPlace& place = places_[i];
    if (place.rows_of_block < 2) continue;
    const int64_t near = Near(i);
    const int64_t least =
        std::max<int64_t>(place.rows - std::min(place.rows_of_block, kMostLines) + 1, 1);
    for (int64_t rows = place.rows; rows >= least; --rows) {
      if (near % SaturatingProduct({rows, kRound}) != 0) continue;
      place.rows = rows;
      break;
    }
  }
}

// Blocks of generated kernels may have several rows each, but of logits, which are long.
void LaunchFlow::FindRows() {
  std::map<int64_t, int64_t> rows, blocks;
  const auto several = [&](size_t i) {
    return name(i).starts_with("triton_") && !places_[i].classes;
  };
  for (size_t i = 0; i < places_.size(); ++i) {
    const int64_t of_it = places_[i].rows;
    if (of_it > 1 && !places_[i].scores) ++(several(i) ? blocks : rows)[of_it];
  }
  rows_ = Most(rows.empty() ? blocks : rows);
  for (size_t i = 0; i < places_.size(); ++i) {
    int64_t& of_it = places_[i].rows;
    if (several(i) && of_it > 0 && of_it < rows_ && rows_ % of_it == 0) of_it = 0;
  }
}

void LaunchFlow::FindTypical() {
  FindMeans();
  FindRows();
  std::map<int64_t, int64_t> columns;
  std::map<int64_t, int64_t> widths;
  for (size_t i = 0; i < places_.size() && rows_ > 0; ++i) {
    const int64_t of_it = places_[i].rows;
    if (of_it < 2 || places_[i].scores) continue;
    for (const bool before : {true, false}) {
      for (const size_t p : before ? Before(i, 1) : Behind(i, 1)) {
        if (const int64_t beside = places_[p].Columns(of_it); beside > 1) ++widths[beside];
      }
    }
  }
  // Not what only stands beside a norm now and then.
  constexpr int64_t kLeastShare = 32;
  const int64_t most = widths.empty() ? 0 : widths[Most(widths)];
  for (const auto& [width, count] : widths) {
    if (count >= most / kLeastShare) norms_.insert(width);
  }
  if (rows_ == 0) rows_ = Samples();
  if (rows_ == 0) return;
  for (size_t i = 0; i < places_.size(); ++i) {
    const int64_t gathered = places_[i].gathered;
    if (gathered > 1 && gathered < rows_ && rows_ % gathered == 0) {
      sequence_ = std::max(sequence_, gathered);
    }
  }
  for (size_t i = 0; i < places_.size(); ++i) {
    if (places_[i].rows != rows_) continue;
    if (const int64_t near = Near(i); near >= rows_) ++columns[near / rows_];
  }
  // A norm's own weight is among those that are gathered.
  std::map<int64_t, int64_t> gathered = columns;
  std::erase_if(gathered, [&](const auto& c) { return !weights_.Has(c.first); });
  columns_ = Most(gathered.empty() ? columns : gathered);
}

// Products of batches have one for each sample.
int64_t LaunchFlow::Samples() const {
  std::map<int64_t, int64_t> batches;
  for (size_t i = 0; i < places_.size(); ++i) {
    if (places_[i].gemm && places_[i].batch > 1) ++batches[places_[i].batch];
  }
  return Most(batches);
}

std::vector<size_t> LaunchFlow::Before(size_t i, size_t kernels) const {
  std::vector<size_t> list;
  for (size_t d = 1; d <= kernels && d <= i; ++d) {
    if (!SameStream(i, i - d)) break;
    list.push_back(i - d);
  }
  return list;
}

std::vector<size_t> LaunchFlow::Behind(size_t i, size_t kernels) const {
  std::vector<size_t> list;
  for (size_t d = 1; d <= kernels && i + d < places_.size(); ++d) {
    if (!SameStream(i, i + d)) break;
    list.push_back(i + d);
  }
  return list;
}

std::vector<int64_t> LaunchFlow::RowsNear(size_t i) const {
  std::vector<int64_t> list;
  for (const bool before : {true, false}) {
    for (const size_t at : before ? Before(i, kRowsWithin) : Behind(i, kRowsWithin)) {
      const int64_t rows = places_[at].rows;
      if (rows < 2 || places_[at].scores) continue;
      if (std::ranges::find(list, rows) == list.end()) list.push_back(rows);
      break;
    }
  }
  if (list.empty() && rows_ > 0) list.push_back(rows_);
  return list;
}

}  // namespace foretrace
