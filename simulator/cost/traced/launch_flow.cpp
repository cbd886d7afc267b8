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

// Of the gradient of a table, by sorted indices or not.
bool AddsRows(std::string_view name) {
  return ContainsAny(name, {"mbedding_backward", "compute_grad_weight", "indexing_backward_kernel",
                            "DeviceUniqueByKey", "RadixSort", "indexFuncLargeIndex"});
}

// Kernels of forward passes, and of optimizers, behind which the next one begins.
bool NamesForward(std::string_view name) {
  return ContainsAny(name, {"forward", "Forward", "fprop", "_fwd", "bn_fw", "cutlassF",
                            "layer_norm_kernel", "rms_norm", "RowwiseMoments", "multi_tensor_apply",
                            "EmbeddingBag_updateOutput", "indexFuncLargeIndex<"});
}

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
    if (added) at->second = PlaceOf(store, rank, node, elements[i], device);
    places_.push_back(at->second);
    places_.back().gathers = weights_.Gathers(node);
  }
  for (size_t i = 0; i < places_.size(); ++i) {
    if (places_[i].gathers) moved_.Forget(order()[i]);
  }
  JoinParts();
  FindCopies();
  FindPasses();
  FindTypical();
  FindWords(device);
}

// Whether a kernel goes on with the tensor that the one before passed over a part of: one call's,
// or, without calls, parts as large as those that a tensor of more than 2^31 bytes is halved into
// (aten/src/ATen/TensorIterator.cpp, with_32bit_indexing).
bool LaunchFlow::SamePart(size_t a, size_t b) const {
  constexpr int64_t kLeast = int64_t{1} << 28;  // elements, of four bytes
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
        if (places_[p].gathers) continue;
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
    if (const int64_t near = Near(i) / rows_; near > 1) ++columns[near];
  }
  const auto keep = [&](auto fits) {
    std::map<int64_t, int64_t> kept = columns;
    std::erase_if(kept, [&](const auto& c) { return !fits(c.first); });
    if (!kept.empty()) columns = std::move(kept);
  };
  // A norm's own weight is among those that are gathered; what is looked up for each token is as
  // wide as the norms' input.
  keep([&](int64_t c) { return weights_.HasVector(c); });
  keep([&](int64_t c) { return IsWidthOfRows(c); });
  columns_ = Most(columns);
}

// Whether a kernel that looks as many rows up as there are tokens may copy so many columns
// (aten/src/ATen/native/cuda/IndexKernelUtils.cu: threads have 16 bytes each, whole warps of them).
bool LaunchFlow::IsWidthOfRows(int64_t width) const {
  constexpr int64_t kLoad = 16, kWarp = 32;
  for (size_t i = 0; i < places_.size(); ++i) {
    if (places_[i].gathered != rows_) continue;
    const LaunchAttr& launch = *rank_.launch(order()[i]);
    const int64_t threads = launch.block[0], blocks = launch.grid[1];
    const int64_t most = SaturatingProduct({kLoad, threads, blocks});
    const int64_t round = kLoad * (blocks > 1 ? threads : kWarp);
    const int64_t bytes = SaturatingProduct({width, element_.count()});
    if (bytes <= most && bytes > most - round) return true;
  }
  return false;
}

// The gradient of a table is cleared whole, before rows are added to it.
void LaunchFlow::FindWords(const GpuPeaks& device) {
  if (columns_ < 1) return;
  constexpr size_t kNext = 3;
  constexpr int64_t kLeast = 256;  // a word for each byte
  const int64_t thread_elements = ElementsOfThread(store_, rank_);
  for (size_t i = 0; i < places_.size(); ++i) {
    if (!ContainsAny(name(i), {"FillFunctor"})) continue;
    const bool table =
        std::ranges::any_of(Behind(i, kNext), [&](size_t b) { return AddsRows(name(b)); });
    Launch launch = LaunchOf(store_, rank_, order()[i]);
    launch.thread_elements = thread_elements;
    const auto cleared = table ? WorkOfLaunch(launch, device) : std::nullopt;
    if (!cleared || launch.attr == nullptr) continue;
    LaunchPlace place;
    place.moved = cleared->written.count() / ElementSize(cleared->dtype);
    place.rounded = static_cast<int64_t>(static_cast<double>(place.moved) / launch.attr->blocks());
    const int64_t rows = place.Columns(columns_);
    if (rows >= kLeast) words_ = std::max(words_, rows);
  }
  // Else the largest weight is theirs.
  if (words_ == 0 && weights_.largest() % columns_ == 0) words_ = weights_.largest() / columns_;
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
