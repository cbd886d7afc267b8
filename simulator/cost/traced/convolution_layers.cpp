#include "simulator/cost/traced/convolution_layers.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>
#include <string_view>

#include "simulator/base/contains.h"
#include "simulator/cost/kernel/convolution_names.h"

namespace foretrace {
namespace {

constexpr size_t kNear = 8;      // kernels that are looked at beside a convolution
constexpr size_t kOfFilter = 3;  // ... for what moves its filters

bool IsPool(std::string_view name) { return ContainsAny(name, {"pool"}); }
bool IsConcat(std::string_view name) { return ContainsAny(name, {"CatArrayBatchedCopy"}); }

// Of an image as square as may be; sizes come from launches and may be anything.
int64_t Side(int64_t area) {
  constexpr int64_t kMostTries = 4096;
  const auto square = std::max<int64_t>(std::llround(std::floor(std::sqrt(area))), 1);
  for (int64_t side = square; side > std::max<int64_t>(square - kMostTries, 1); --side) {
    if (area % side == 0) return side;
  }
  return square <= kMostTries ? 1 : square;
}

}  // namespace

ConvolutionLayers::ConvolutionLayers(const TraceStore& store, const RankTrace& rank,
                                     const LaunchFlow& flow, const KernelCalls& calls)
    : store_(store), rank_(rank), flow_(flow), calls_(FindConvolutions(store, rank, flow, calls)) {
  if (calls_.empty()) return;
  layers_.resize(static_cast<size_t>(
      std::ranges::count_if(calls_, [](const Call& call) { return !call.backward(); })));
  FindImages();
  FindResults();
  if (images_ == 0) GuessImages();
  FindInputs();
  FindFilters();
  FindNormGradients();
  for (size_t c = 0; c < calls_.size(); ++c) {
    if (calls_[c].layer == Call::kNoLayer) continue;
    Layer& layer = layers_[calls_[c].layer];
    if (!calls_[c].backward()) layer.fits = Fits(calls_[c], layer);
    if (layer.fits) call_of_[calls_[c].call.value] = c;
  }
}

// Samples: changes of layout and gradients by cuDNN's own engine have a plane of blocks for each,
// GEMMs over pixels that lie together a batch. What most of them have: filters change their layout
// too.
void ConvolutionLayers::FindImages() {
  std::map<int64_t, int64_t> counts;
  for (const Call& call : calls_) {
    for (size_t i = call.first; i <= call.last; ++i) {
      const LaunchAttr* launch = rank_.launch(flow_.order()[i]);
      if (launch == nullptr || launch->grid[2] < 2) continue;
      const bool planes = ConvolutionKernelOf(flow_.name(i)).part == ConvolutionPart::kLayout ||
                          ContainsAny(flow_.name(i), {"dgrad_engine<"});
      const bool in_parts = ContainsAny(flow_.name(i), {"splitK", "split_k"});
      if (planes || (call.positions == 1 && !in_parts && IsPlainGemm(flow_.name(i)))) {
        ++counts[launch->grid[2]];
      }
    }
  }
  images_ = Most(counts);
}

// Where nothing tells, by the least of all images, which is as large in most networks.
void ConvolutionLayers::GuessImages() {
  int64_t common = 0;
  for (const Layer& layer : layers_) common = std::gcd(common, layer.out.pixels);
  for (const int64_t side : {7, 8, 4}) {
    if (common == 0 || common % (side * side) != 0) continue;
    images_ = common / (side * side);
    return;
  }
  images_ = 1;
}

// By the norm behind and what moves as much as it is given; where there is none, by the tiles.
ConvolutionLayers::Image ConvolutionLayers::ResultOf(const Call& call) {
  const int64_t images = std::max<int64_t>(images_, 1);
  Layer& layer = layers_[call.layer];
  int64_t channels = 0, elements = 0;
  bool concatenated = false;
  for (const size_t p : flow_.Behind(call.last, kNear)) {
    const LaunchPlace& place = flow_.at(p);
    if (place.gemm || place.attention || (elements > 0 && channels > 0)) break;
    if (ConvolutionKernelOf(flow_.name(p)).part != ConvolutionPart::kUnknown) break;
    concatenated |= IsConcat(flow_.name(p));
    if (place.channels > 0 && channels == 0) {
      channels = place.channels;
      layer.rounded = place.channels_rounded;
      layer.concatenated = concatenated;
      normed_[p] = call.layer;
    }
    // Counters are one block's, means of channels fewer.
    const int64_t least = SaturatingProduct({channels, images});
    const bool moves = place.moved > 0 && rank_.launch(flow_.order()[p])->grid[0] > 1;
    if (elements < least) elements = 0;
    if (elements == 0 && moves && !place.copies && place.moved >= least) {
      elements = place.moved;
      layer.moved = p;
    }
  }
  if (channels == 0) channels = call.filters;
  if (channels == 0) channels = ChannelsByTiles(call, elements);
  if (channels == 0) return {};
  return {elements / SaturatingProduct({channels, images}) * images, channels};
}

// Tiles lie along channels one way, along pixels the other.
int64_t ConvolutionLayers::ChannelsByTiles(const Call& call, int64_t elements) const {
  for (size_t i = call.first; elements > 0 && i <= call.last; ++i) {
    const ConvolutionKernel kernel = ConvolutionKernelOf(flow_.name(i));
    const LaunchAttr* launch = rank_.launch(flow_.order()[i]);
    if (!kernel.main() || launch == nullptr) continue;
    for (const int along : {0, 1}) {
      const int64_t channels = SaturatingProduct({launch->grid[along], kernel.block.cols});
      const int64_t pixels = channels > 0 ? elements / channels : 0;
      if (pixels > 0 && (pixels - 1) / kernel.block.rows + 1 == launch->grid[1 - along]) {
        return channels;
      }
    }
  }
  return 0;
}

void ConvolutionLayers::FindResults() {
  std::vector<Call*> forward;
  for (Call& call : calls_) {
    if (!call.backward()) forward.push_back(&call);
  }
  for (const Call* call : forward) layers_[call->layer].out = ResultOf(*call);
  // Before a branch nothing moves its result until both are added.
  for (size_t i = forward.size(); i-- > 1;) {
    const Image& next = layers_[forward[i]->layer].out;
    Image& out = layers_[forward[i - 1]->layer].out;
    if (out.pixels == 0 && out.channels == next.channels) out.pixels = next.pixels;
  }
}

ConvolutionLayers::Between ConvolutionLayers::Look(const Call& before, const Call& call,
                                                   const Layer& layer) const {
  Between between;
  const int64_t elements = SaturatingProduct({layer.out.pixels, layer.out.channels});
  for (size_t p = before.last + 1; p < call.first; ++p) {
    const LaunchPlace& place = flow_.at(p);
    between.pooled |= IsPool(flow_.name(p));
    between.multiplied |= place.gemm;
    if (place.channels > 0) between.concatenated = false;
    between.concatenated |= IsConcat(flow_.name(p));
    if (elements == 0 || place.moved < elements) continue;
    between.activated = true;
    between.added |= place.operands > 1;
  }
  return between;
}

// Where a norm's grid states them to a block: those with which the result has as many pixels as the
// input, or a quarter.
void ConvolutionLayers::CorrectChannels(Layer& layer) const {
  constexpr int64_t kQuarter = 4;
  if (layer.rounded == 0 || layer.out.pixels == 0) return;
  const LaunchPlace& moves = flow_.at(layer.moved);
  for (const int64_t pixels : {layer.in.pixels, layer.in.pixels / kQuarter}) {
    if (pixels == 0) continue;
    const int64_t channels = moves.moved / pixels;
    const bool may_be = channels <= layer.out.channels &&
                        channels > layer.out.channels - layer.rounded &&
                        moves.Moves(SaturatingProduct({channels, pixels}));
    if (!may_be) continue;
    layer.out = {pixels, channels};
    return;
  }
}

void ConvolutionLayers::FindInputs() {
  constexpr int64_t kColours = 3, kStride = 2, kGrows = 16;
  constexpr int64_t kElementBytes = 4;  // of what comes from the host
  constexpr int64_t kPatch = 196;       // positions of what has as many pixels for each result
  const Call* before = nullptr;
  Image joined;
  for (const Call& call : calls_) {
    if (call.backward()) {
      before = nullptr;
      continue;
    }
    Layer& layer = layers_[call.layer];
    const Layer* last = before == nullptr ? nullptr : &layers_[before->layer];
    const bool follows = last != nullptr && flow_.SameStream(before->first, call.first);
    const Between between = follows ? Look(*before, call, *last) : Between();
    const bool grows =
        follows && last->out.pixels > 0 && layer.out.pixels / last->out.pixels >= kGrows;
    before = &call;
    if (!follows || (between.multiplied && grows)) {
      layer.first = true;
      const bool whole = flow_.Copied(call.first) / (kElementBytes * kColours) == layer.out.pixels;
      const int64_t stride = call.positions >= kPatch ? call.positions : kStride * kStride;
      layer.in = {SaturatingProduct({layer.out.pixels, whole ? 1 : stride}), kColours};
      joined = {};
      continue;
    }
    layer.in = last->out;
    if (between.pooled) {
      layer.in.pixels = std::max(layer.out.pixels, last->out.pixels / (kStride * kStride));
    }
    if (between.concatenated) layer.in = {};
    if (between.pooled || between.added) joined = layer.in;
    const bool moved = between.activated || between.pooled;
    layer.branch = !moved && layer.out == last->out && joined.channels > 0;
    if (layer.branch) layer.in = joined;
    CorrectChannels(layer);
    if (layer.out.pixels == 0) layer.out.pixels = layer.in.pixels;
    if (layer.in.pixels == 0) layer.in.pixels = layer.out.pixels;
    layer.halves = !layer.branch && last->out.pixels > layer.out.pixels;
  }
}

// Whether the kernel at `place` moves as many elements as a filter has: of so many positions.
bool ConvolutionLayers::FindByWeights(size_t place, Layer& layer) const {
  constexpr std::array<int64_t, 8> kPositions = {1, 9, 25, 49, 3, 5, 7, 121};
  const LaunchPlace& moves = flow_.at(place);
  if (moves.moved == 0) return false;
  for (const Image& image : {layer.in, layer.out}) {
    if (moves.Moves(SaturatingProduct({image.pixels, image.channels}))) return false;
  }
  for (const bool by_channel : {false, true}) {
    if (by_channel && layer.in.channels != layer.out.channels) continue;
    const int64_t channels = by_channel ? 1 : layer.in.channels;
    for (const int64_t positions : kPositions) {
      if (by_channel && positions == 1) continue;
      if (!moves.Moves(SaturatingProduct({layer.out.channels, channels, positions}))) continue;
      layer.positions = positions;
      layer.groups = by_channel ? layer.in.channels : 1;
      return true;
    }
  }
  return false;
}

// Of first ones that halve the image 7 x 7 where there are 64; of others 3 x 3 where they keep the
// number of channels (the middle of a bottleneck) and where they double it while the image is
// halved, by a stride or by a pool before (VGG).
int64_t ConvolutionLayers::UsualPositions(const Layer& layer) {
  constexpr int64_t kWide = 9, kFirst = 49, kMany = 64;
  if (layer.first) {
    const bool widest = layer.in.pixels > layer.out.pixels && layer.out.channels >= kMany;
    return widest ? kFirst : kWide;
  }
  if (layer.branch) return 1;
  if (layer.in.channels == layer.out.channels) return kWide;
  return layer.halves && layer.out.channels == 2 * layer.in.channels ? kWide : 1;
}

void ConvolutionLayers::FindFilters() {
  for (const Call& call : calls_) {
    if (call.layer == Call::kNoLayer) continue;
    Layer& layer = layers_[call.layer];
    if (layer.positions > 0 || layer.out.channels == 0) continue;
    layer.positions = call.positions;
    if (layer.positions > 0) continue;
    if (call.by_channel && layer.in.channels == layer.out.channels) {
      layer.groups = layer.in.channels;
    }
    const bool backward = call.backward();
    for (const size_t p :
         backward ? flow_.Behind(call.last, kOfFilter) : flow_.Before(call.first, kOfFilter)) {
      if (flow_.at(p).gemm) break;
      if (!backward && !flow_.at(p).copies) continue;
      if (FindByWeights(p, layer)) break;
    }
  }
  for (Layer& layer : layers_) {
    if (layer.positions == 0) layer.positions = UsualPositions(layer);
  }
}

// Whether the sizes are known and the tiles of a forward call hold its results, of all images or of
// each.
bool ConvolutionLayers::Fits(const Call& call, const Layer& layer) const {
  if (layer.out.channels == 0 || layer.in.channels == 0 || layer.concatenated) return false;
  if (std::min(layer.out.pixels, layer.in.pixels) < images_) return false;
  for (size_t i = call.first; i <= call.last; ++i) {
    const LaunchPlace& place = flow_.at(i);
    if (!place.gemm || call.winograd) continue;
    if (!place.Holds(layer.out.pixels, layer.out.channels) &&
        !place.Holds(layer.out.pixels / images_, layer.out.channels)) {
      return false;
    }
  }
  return true;
}

// A result's gradient comes from its norm's.
void ConvolutionLayers::FindNormGradients() {
  for (const Call& call : calls_) {
    if (!call.backward() || call.layer == Call::kNoLayer) continue;
    const std::vector<size_t> before = flow_.Before(call.first, kOfFilter);
    const auto norm =
        std::ranges::find_if(before, [&](size_t p) { return flow_.at(p).channels > 0; });
    if (norm == before.end()) continue;
    if (flow_.at(*norm).channels == layers_[call.layer].out.channels) normed_[*norm] = call.layer;
  }
}

int64_t ConvolutionLayers::PixelsOfNorm(size_t place) const {
  const auto found = normed_.find(place);
  return found == normed_.end() ? 0 : layers_[found->second].out.pixels;
}

std::optional<ConvolutionLayers::Found> ConvolutionLayers::Of(NodeIndex call) const {
  const auto found = call_of_.find(call.value);
  if (found == call_of_.end()) return std::nullopt;
  const Call& at = calls_[found->second];
  const Layer& layer = layers_[at.layer];
  Conv2dOp op;
  op.n = images_;
  op.c = layer.in.channels;
  op.k = layer.out.channels;
  op.r = Side(layer.positions);
  op.s = layer.positions / op.r;
  op.oh = Side(layer.out.pixels / images_);
  op.ow = layer.out.pixels / images_ / op.oh;
  op.h = Side(layer.in.pixels / images_);
  op.w = layer.in.pixels / images_ / op.h;
  op.groups = layer.groups;
  const std::string_view name = store_.name(rank_, call);
  op.needs_input_gradient = !layer.first && !name.ends_with("backward_weight");
  op.needs_weight_gradient = !name.ends_with("backward_input");
  const Direction pass = at.backward() ? Direction::kBackward : Direction::kForward;
  return Found{op, pass, at.first, at.last};
}

}  // namespace foretrace
