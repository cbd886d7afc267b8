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
constexpr size_t kBefore = 6, kBehind = 3;  // kernels that are looked at
constexpr int kMaxLevels = 8;               // of calls around a launch
// A layer reduces over more than what a norm keeps of each row.
constexpr int64_t kLeastDepth = 8;
// How much each thing that is explained counts: tensors, the width that most norms have, and that
// a result has it too, which decides among equals.
constexpr double kTensor = 2, kTypicalDepth = 1, kTypicalWidth = 0.5, kTilesAlone = 0.25;

// Of operators those that are, of others (functions' own) all.
bool IsLayer(std::string_view name) {
  return name == "aten::addmm" || name == "aten::mm" || name == "aten::linear" ||
         !name.starts_with("aten::");
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

void AddNew(std::vector<int64_t>& list, int64_t size) {
  if (size > 0 && std::ranges::find(list, size) == list.end()) list.push_back(size);
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
  bool layer = false;
  for (int level = 0; at.valid() && level < kMaxLevels; ++level, at = rank_.parent(at)) {
    if (rank_.kind(at) != NodeKind::kCpuOp) continue;
    const std::string_view name = store_.name(rank_, at);
    const std::string_view autograd = AutogradOf(name);
    if (!autograd.empty()) return {at, layer || autograd.ends_with("CheckpointFunction")};
    layer |= name == "aten::linear" || functions_.IsForward(rank_.name(at));
  }
  return {};
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
  const MatrixSizes sizes = Forward(i);
  if (pass.again) {  // the layer's gradients are those of its first pass
    Passed(i, sizes);
  } else {
    Begin(i, call, sizes);
  }
  return sizes;
}

// As autograd goes: of the last layer whose gradients have not come that of the input, then that of
// the weights. A layer whose kernel's tiles hold neither has none.
MatrixSizes LinearLayers::OfNoCall(size_t i, NodeIndex kernel) {
  if (!flow_.backward(i)) {
    layers_.clear();
    Begin(i, kernel, Forward(i));
    return last_sizes_;
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
  Passed(i, sizes);
  std::vector<Open>& open = open_[LayerName(call)];
  if (open.empty() || open.back().call != call) open.push_back({call, {}});
  open.back().layers.push_back(sizes);
}

void LinearLayers::Passed(size_t i, const MatrixSizes& sizes) {
  if (last_ == SIZE_MAX || last_ + 1 != i) run_ = i;
  last_sizes_ = sizes;
  last_ = i;
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

// The next gradient of the layers at hand, of which the last comes first.
MatrixSizes LinearLayers::GradientOf(size_t i) {
  const bool first = made_ < layers_.size() * kGradients && made_ % kGradients == 0;
  const size_t behind = std::min(made_ / kGradients, layers_.size() - 1);
  const MatrixSizes layer = layers_[layers_.size() - 1 - behind];
  ++made_;
  if (!layer.known()) return {};
  const MatrixSizes of_input{layer.m, layer.k, layer.n};
  // As torch.nn.Linear keeps weights, unless fewer tiles would do for them turned over.
  MatrixSizes of_weights{layer.n, layer.k, layer.m};
  const WarpgroupTile tile = WarpgroupTileOf(flow_.name(i));
  if (Tiles(tile, layer.k, layer.n) < Tiles(tile, layer.n, layer.k)) {
    std::swap(of_weights.m, of_weights.n);
  }
  const LaunchPlace& place = flow_.at(i);
  const bool holds_input = place.Holds(of_input.m, of_input.n);
  const bool holds_weights = place.Holds(of_weights.m, of_weights.n);
  if (!holds_input && !holds_weights) return {};  // another layer's
  if (holds_input != holds_weights) return holds_input ? of_input : of_weights;
  return SumsOverRows(flow_.name(i)).value_or(!first) ? of_weights : of_input;
}

LinearLayers::Around LinearLayers::Look(size_t i) const {
  Around around;
  for (const size_t b : flow_.Before(i, kBefore)) {
    const LaunchPlace& place = flow_.at(b);
    if (place.gemm) {
      if (b == last_) around.same_input = last_sizes_.k;
      break;
    }
    if (place.attention) {
      if (around.before.empty()) around.attended = HeadsTogether(b);
      break;
    }
    if (place.moved > 0) around.before.push_back(b);
  }
  LookBehind(i, around);
  constexpr int64_t kElement = 4;
  if (around.before.empty()) around.copied = flow_.Copied(i) / kElement;
  // Behind its like, or where a kernel behind takes its result together with what that one's was
  // made: gated layers.
  const bool alike = last_ + 1 == i;
  around.gated = !alike && around.same_input > 0 && around.before.size() == 1 &&
                 !around.behind.empty() && flow_.at(around.behind.front()).operands == 2 &&
                 flow_.at(around.before.front()).moved == flow_.at(around.behind.front()).moved;
  if (!alike && !around.gated) around.same_input = 0;
  return around;
}

// Columns of the queries of all heads, which attention's result has too; 0: not known.
int64_t LinearLayers::HeadsTogether(size_t attention) const {
  const auto op = attention_.Of(attention, NamesGradient(flow_.name(attention)));
  return op ? SaturatingProduct({op->heads, op->d}) : 0;
}

// What is done with the layer's result. Several layers that follow each other at once have one
// input; their results are used in their order, each by kernels that move as much.
void LinearLayers::LookBehind(size_t i, Around& around) const {
  constexpr size_t kMostTogether = 4, kUses = 16, kWithKeys = 3;
  const size_t first = last_ != SIZE_MAX && last_ + 1 == i ? run_ : i;
  size_t end = i + 1;
  while (end < flow_.order().size() && end - first < kMostTogether && flow_.SameStream(i, end) &&
         flow_.at(end).gemm && !SumsOverRows(flow_.name(end)).value_or(false)) {
    ++end;
  }
  const bool together = end - first > 1;
  std::vector<std::vector<size_t>> uses;  // of equal sizes
  bool attention = false;
  for (const size_t b : flow_.Behind(end - 1, together ? kUses : kBehind)) {
    const LaunchPlace& place = flow_.at(b);
    attention = place.attention;
    if (place.attention && end - first == 1) around.to_attention = uses.empty();
    if (place.attention && together && first == i) around.queries = HeadsTogether(b);
    if (place.gemm || place.attention) break;
    if (place.moved <= 0) continue;
    const int64_t before = uses.empty() ? 0 : flow_.at(uses.back().front()).moved;
    // Of heads that are turned halfway, halves are moved too.
    if (flow_.weights().all().empty() && before == 2 * place.moved) continue;
    if (before != place.moved) uses.emplace_back();
    uses.back().push_back(b);
  }
  const bool in_order = together && uses.size() >= end - first;
  for (size_t u = 0; u < uses.size(); ++u) {
    if (in_order && u != i - first) continue;
    around.behind.insert(around.behind.end(), uses[u].begin(), uses[u].end());
  }
  around.as_before = attention && end - first == kWithKeys && i + 1 == end;
}

MatrixSizes LinearLayers::Forward(size_t i) const {
  const Around around = Look(i);
  if (around.as_before && last_sizes_.known()) return last_sizes_;
  MatrixSizes best;
  double most = 0;
  for (const int64_t rows : flow_.RowsNear(i)) {
    const auto [depths, widths] = Candidates(i, rows, around);
    for (const int64_t depth : depths) {
      for (const int64_t width : widths) {
        const MatrixSizes sizes{rows, width, depth};
        const double score = Score(i, sizes, around);
        if (score <= most) continue;
        most = score;
        best = sizes;
      }
    }
  }
  return best;
}

std::pair<std::vector<int64_t>, std::vector<int64_t>> LinearLayers::Candidates(
    size_t i, int64_t rows, const Around& around) const {
  std::vector<int64_t> depths, widths;
  AddNew(depths, around.same_input);
  for (const size_t b : around.before) {
    const int64_t columns = flow_.at(b).Columns(rows);
    if (columns >= kLeastDepth) AddNew(depths, columns);
  }
  if (around.copied % rows == 0) AddNew(depths, around.copied / rows);
  AddNew(depths, around.attended);
  AddNew(depths, flow_.columns());
  for (const size_t b : around.behind) AddNew(widths, flow_.at(b).Columns(rows));
  AddNew(widths, flow_.at(i).Width(rows));
  for (const size_t b : around.before) {  // a cast of the weights
    for (const int64_t depth : depths) {
      if (flow_.at(b).copies) AddNew(widths, flow_.at(b).Columns(depth));
    }
  }
  AddNew(widths, around.queries);
  // What is left of a weight is wide, where it is deep.
  for (const auto& [weight, rounded] : flow_.weights().all()) {
    for (const int64_t depth : depths) {
      if (weight % depth == 0 && weight / depth >= kLeastDepth) AddNew(widths, weight / depth);
    }
  }
  // One layer makes queries, keys and values.
  constexpr int64_t kProjections = 3;
  const bool together = around.to_attention && around.same_input == 0;
  AddNew(widths, together ? kProjections * flow_.columns() : flow_.columns());
  return {depths, widths};
}

double LinearLayers::Score(size_t i, const MatrixSizes& s, const Around& around) const {
  if (!flow_.at(i).Holds(s.m, s.n)) return 0;
  // Layers read what a norm gives or make what one is given.
  if (!flow_.HasNormOf(s.k) && !flow_.HasNormOf(s.n)) return 0;
  const int64_t x = SaturatingProduct({s.m, s.k}), w = SaturatingProduct({s.k, s.n}),
                y = SaturatingProduct({s.m, s.n});
  const auto moves = [&](size_t at, int64_t elements) { return flow_.at(at).Moves(elements); };
  double score = kTilesAlone;
  const bool input = x == around.copied ||
                     std::ranges::any_of(around.before, [&](size_t b) { return moves(b, x); });
  const bool attended = around.attended > 0 && s.k == around.attended;
  if ((input && !around.gated) || attended) score += kTensor;
  const auto is_cast = [&](size_t b) { return flow_.at(b).copies && moves(b, w) && !moves(b, x); };
  const bool weighs = flow_.weights().Has(w) || std::ranges::any_of(around.before, is_cast);
  if (weighs) score += kTensor;
  if (std::ranges::any_of(around.behind, [&](size_t b) { return moves(b, y); })) score += kTensor;
  if (around.same_input > 0 && s.k == around.same_input) score += kTensor;
  if (around.queries > 0 && s.n == around.queries) score += kTensor;
  if (s.k == flow_.columns()) score += kTypicalDepth;
  if (s.n == flow_.columns()) score += kTypicalWidth;
  return score;
}

}  // namespace foretrace
