#include "simulator/cost/traced/linear_layers.h"

#include <algorithm>
#include <cctype>
#include <string_view>
#include <utility>

#include "simulator/cost/kernel/kernel_names.h"
#include "simulator/cost/kernel/warpgroup_gemm.h"
#include "simulator/cost/operator/kernel_work.h"

namespace foretrace {
namespace {

constexpr size_t kGradients = 2;  // of a layer
const char* const kNoCall = "";
const char* const kCompiled = "CompiledFunction";  // torch._functorch.aot_autograd's
constexpr int kMaxLevels = 8;                      // of calls around a launch
// Of operators those that are, of others (functions' own) all.
bool IsLayer(std::string_view name) {
  return name == "aten::addmm" || name == "aten::mm" || name == "aten::linear" ||
         name == "aten::_scaled_mm" || !name.starts_with("aten::");
}

// The part of the name of autograd's node that names the operator: of "AddmmBackward0",
// "AddmmBackward" before PyTorch 1.10; empty: another name.
std::string_view AutogradOf(std::string_view name) {
  constexpr std::string_view kEnd = "Backward";
  while (!name.empty() && name.back() >= '0' && name.back() <= '9') name.remove_suffix(1);
  if (!name.ends_with(kEnd)) return {};
  name.remove_suffix(kEnd.size());
  const size_t space = name.rfind(' ');
  return space == name.npos ? name : name.substr(space + 1);
}

// That a kernel goes through for m x n results, whole clusters; 0: not known.
int64_t Tiles(const WarpgroupTile& tile, int64_t m, int64_t n) {
  if (!tile.known()) return 0;
  const auto along = [](int64_t size, int64_t tile_size, int64_t cluster) {
    const int64_t tiles = (size - 1) / tile_size + 1;
    return ((tiles - 1) / cluster + 1) * cluster;
  };
  return SaturatingProduct(
      {along(n, tile.rows, tile.cluster_rows), along(m, tile.cols, tile.cluster_cols)});
}

}  // namespace

// Gradients call no whole layer: what does within a node of autograd is computed again, by a hook
// on what the node has saved, or by the function of a checkpoint.
LinearLayers::Pass LinearLayers::PassOf(NodeIndex call) const {
  NodeIndex at = call;
  bool layer = false, compiled = false;
  for (int level = 0; at.valid() && level < kMaxLevels; ++level, at = rank_.parent(at)) {
    if (rank_.kind(at) != NodeKind::kCpuOp) continue;
    const std::string_view name = store_.name(rank_, at);
    const std::string_view autograd = AutogradOf(name);
    if (!autograd.empty()) {
      compiled |= autograd == kCompiled;
      return {at, layer || autograd.ends_with("CheckpointFunction"), compiled};
    }
    compiled |= name == kCompiled;
    layer |= name == "aten::linear" || functions_.IsForward(rank_.name(at));
  }
  return {NodeIndex(), false, compiled};
}

// The call whose backward pass a node of autograd is; "": of no layer.
std::string LinearLayers::ForwardOf(NodeIndex autograd) const {
  if (const auto function = functions_.ForwardOf(rank_.name(autograd))) {
    return std::string(store_.strings().Get(*function));
  }
  std::string name = "aten::";
  for (const char c : AutogradOf(store_.name(rank_, autograd))) {
    name += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return IsLayer(name) ? name : "";
}

// Of the function that a layer is a part of, which has the gradients; else of the call.
std::string LinearLayers::LayerName(NodeIndex call) const {
  if (rank_.kind(call) != NodeKind::kCpuOp) return kNoCall;
  NodeIndex at = call;
  for (int level = 0; at.valid() && level < kMaxLevels; ++level, at = rank_.parent(at)) {
    const bool op = rank_.kind(at) == NodeKind::kCpuOp;
    if (op && functions_.IsForward(rank_.name(at))) return std::string(store_.name(rank_, at));
  }
  return std::string(store_.name(rank_, call));
}

MatrixSizes LinearLayers::Next(size_t i, NodeIndex call) {
  const Pass pass = PassOf(call);
  if (pass.compiled) return OfCompiled(i, call, pass);
  if (pass.node.valid() && !pass.again) {
    const std::string forward = ForwardOf(pass.node);
    if (!forward.empty()) return Gradient(i, pass.node, forward);
  }
  if (rank_.kind(call) != NodeKind::kCpuOp) return OfNoCall(i, call);
  const std::string name(store_.name(rank_, call));
  if (!IsLayer(name)) return {};
  // Compiled graphs have one node of autograd for all their layers, some recordings have none: the
  // backward pass then shows by its thread, where layers with a bias are computed anew.
  const bool with_bias = name != "aten::mm";
  if (with_bias && !pass.node.valid()) thread_ = rank_.lane(call);
  const bool anew = pass.again || (with_bias && pass.node.valid());
  if (thread_.valid() && rank_.lane(call) != thread_ && !anew) return SumOverRows(i);
  const MatrixSizes sizes = forward_.Of(i);
  if (pass.again) {  // the layer's gradients are those of its first pass
    forward_.Passed(i, sizes);
  } else {
    Begin(i, call, sizes);
  }
  return sizes;
}

// A compiled graph's backward pass has its layers' gradients in an order of its own: those of
// inputs and those of weights each go from the last layer to the first. Matrices of 8 bits always
// lie along the reduction: which gradient one is, what is cast before it tells.
MatrixSizes LinearLayers::OfCompiled(size_t i, NodeIndex call, const Pass& pass) {
  std::vector<Open>& open = open_[kCompiled];
  const bool small = TraitsOfKernel(flow_.name(i)).precision == Precision::kFloat8;
  const std::optional<bool> sums = SumsOverRows(flow_.name(i));
  if (pass.node.valid() && open.empty()) return {};
  if (!pass.node.valid() || (!sums && !small)) {
    const MatrixSizes sizes = forward_.Of(i);
    forward_.Passed(i, sizes);
    if (!pass.node.valid()) open.push_back({call, {sizes}});
    return sizes;
  }
  if (pass.node != backward_) {  // what the one before has left has but one gradient
    backward_ = pass.node;
    layers_.clear();
    std::erase_if(open, [](const Open& o) { return o.input || o.weights; });
  }
  const auto last = [&](bool Open::*made) {
    return std::find_if(open.rbegin(), open.rend(), [&](const Open& o) { return !(o.*made); });
  };
  const auto input = last(&Open::input), weights = last(&Open::weights);
  const bool to_input = input != open.rend() && GivenWeights(i, input->layers.front());
  const bool of_weights = sums.value_or(!to_input);
  const auto at = of_weights ? weights : input;
  if (at == open.rend()) return {};
  const MatrixSizes layer = at->layers.front();
  (of_weights ? at->weights : at->input) = true;
  if (at->weights && at->input) open.erase(std::next(at).base());
  if (!layer.known()) return {};
  return of_weights ? OfWeights(i, layer) : MatrixSizes{layer.m, layer.k, layer.n};
}

// Whether something as large as the layer's weights is moved right before.
bool LinearLayers::GivenWeights(size_t i, const MatrixSizes& layer) const {
  constexpr size_t kOperands = 4;
  for (const size_t p : flow_.Before(i, kOperands)) {
    if (flow_.at(p).gemm) return false;
    if (flow_.at(p).Moves(SaturatingProduct({layer.n, layer.k}))) return true;
  }
  return false;
}

// As autograd goes: of the last layer whose gradients have not come that of the input, then that of
// the weights. A layer whose kernel's tiles hold neither has none.
MatrixSizes LinearLayers::OfNoCall(size_t i, NodeIndex kernel) {
  if (!flow_.backward(i)) {
    layers_.clear();
    Begin(i, kernel, forward_.Of(i));
    return forward_.last();
  }
  std::vector<Open>& open = open_[kNoCall];
  while (true) {
    if (layers_.empty() || made_ == kGradients) {
      if (open.empty()) return {};
      layers_ = std::move(open.back().layers);
      open.pop_back();
      made_ = 0;
    }
    last_gradient_ = i;
    const bool known = layers_.front().known();
    const MatrixSizes sizes = GradientOf(i);
    if (sizes.known() || !known) return sizes;
    made_ = kGradients;
  }
}

void LinearLayers::Known(size_t i, NodeIndex call, const MatrixSizes& sizes) {
  const Pass pass = PassOf(call);
  const bool gradient = pass.node.valid() && !pass.again;
  const std::string forward = gradient ? ForwardOf(pass.node) : std::string();
  if (!forward.empty()) {
    Gradient(i, pass.node, forward);
  } else if (IsLayer(store_.name(rank_, call))) {
    Begin(i, call, sizes);
  }
}

void LinearLayers::Begin(size_t i, NodeIndex call, const MatrixSizes& sizes) {
  forward_.Passed(i, sizes);
  std::vector<Open>& open = open_[LayerName(call)];
  if (open.empty() || open.back().call != call) open.push_back({call, {}});
  open.back().layers.push_back(sizes);
}

// The gradient of weights reduces over rows, which both operands have first ("nt" of a library
// whose matrices have theirs last); how its results lie does not matter.
MatrixSizes LinearLayers::SumOverRows(size_t i) const {
  const LaunchPlace& place = flow_.at(i);
  if (place.tiles <= 0 || flow_.rows() < 2 || !flow_.name(i).ends_with("_nt")) return {};
  return {place.tile_cols, place.Width(place.tile_cols), flow_.rows()};
}

MatrixSizes LinearLayers::Behind(size_t i, NodeIndex call) const {
  constexpr size_t kNear = 2;  // parts of a GEMM are added up between
  if (rank_.kind(call) != NodeKind::kCpuOp) {
    const bool near = made_ == kGradients && i > last_gradient_ && i - last_gradient_ <= kNear;
    return near && !layers_.empty() ? layers_.front() : MatrixSizes();
  }
  // The engine sums gradients of what was broadcast after the node's own function.
  const NodeIndex node = PassOf(call).node;
  if (!node.valid() || !backward_.valid()) return {};
  const bool same = node == backward_ || node == rank_.parent(backward_);
  return same && !layers_.empty() ? layers_.front() : MatrixSizes();
}

// Autograd's node makes the gradient of x, then that of w, or only one of both.
MatrixSizes LinearLayers::Gradient(size_t i, NodeIndex backward, const std::string& forward) {
  if (backward != backward_) {
    backward_ = backward;
    made_ = 0;
    layers_.clear();
    std::vector<Open>& open = open_[forward];
    if (!open.empty()) {
      layers_ = std::move(open.back().layers);
      open.pop_back();
    }
  }
  return layers_.empty() ? MatrixSizes() : GradientOf(i);
}

// As torch.nn.Linear keeps weights, unless fewer tiles would do for them turned over.
MatrixSizes LinearLayers::OfWeights(size_t i, const MatrixSizes& layer) const {
  const WarpgroupTile tile = WarpgroupTileOf(flow_.name(i));
  const bool turned = Tiles(tile, layer.k, layer.n) < Tiles(tile, layer.n, layer.k);
  return turned ? MatrixSizes{layer.k, layer.n, layer.m} : MatrixSizes{layer.n, layer.k, layer.m};
}

// The next gradient of the layers at hand, of which the last comes first.
MatrixSizes LinearLayers::GradientOf(size_t i) {
  const bool first = made_ < layers_.size() * kGradients && made_ % kGradients == 0;
  const size_t behind = std::min(made_ / kGradients, layers_.size() - 1);
  const MatrixSizes layer = layers_[layers_.size() - 1 - behind];
  ++made_;
  if (!layer.known()) return {};
  const MatrixSizes of_input{layer.m, layer.k, layer.n};
  const MatrixSizes of_weights = OfWeights(i, layer);
  const LaunchPlace& place = flow_.at(i);
  const bool holds_input = place.Holds(of_input.m, of_input.n);
  const bool holds_weights = place.Holds(of_weights.m, of_weights.n);
  if (!holds_input && !holds_weights) return {};  // another layer's
  if (holds_input != holds_weights) return holds_input ? of_input : of_weights;
  return SumsOverRows(flow_.name(i)).value_or(!first) ? of_weights : of_input;
}

}  // namespace foretrace
