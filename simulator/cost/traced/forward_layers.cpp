#include "simulator/cost/traced/forward_layers.h"

#include <algorithm>
#include <utility>

#include "simulator/cost/kernel/kernel_names.h"
#include "simulator/cost/operator/kernel_work.h"

namespace foretrace {
namespace {

constexpr size_t kBefore = 6, kBehind = 3;  // kernels that are looked at
// A layer reduces over more than what a norm keeps of each row.
constexpr int64_t kLeastDepth = 8;
// How much each thing that is explained counts: tensors, a loss's classes, the width that most
// norms have, and that a result has it too, which decides among equals.
constexpr double kTensor = 2, kClasses = 3, kTypicalDepth = 1, kTypicalWidth = 0.5,
                 kTilesAlone = 0.25;

void AddNew(std::vector<int64_t>& list, int64_t size) {
  if (size > 0 && std::ranges::find(list, size) == list.end()) list.push_back(size);
}

}  // namespace

void ForwardLayers::Passed(size_t i, const MatrixSizes& sizes) {
  if (last_ == SIZE_MAX || last_ + 1 != i) run_ = i;
  sizes_ = sizes;
  last_ = i;
}

ForwardLayers::Around ForwardLayers::Look(size_t i) const {
  Around around;
  for (const size_t b : flow_.Before(i, kBefore)) {
    const LaunchPlace& place = flow_.at(b);
    if (place.gemm) {
      if (b == last_) around.same_input = sizes_.k;
      break;
    }
    if (place.attention) {
      if (around.before.empty()) around.attended = HeadsTogether(b);
      break;
    }
    if (place.moved > 0 && !place.gathers) around.before.push_back(b);
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
int64_t ForwardLayers::HeadsTogether(size_t attention) const {
  const auto op = attention_.Of(attention, NamesGradient(flow_.name(attention)));
  return op ? SaturatingProduct({op->heads, op->d}) : 0;
}

// Whether the layer's result, cast or not, is what a loss has the softmax of.
bool ForwardLayers::GivesLoss(size_t i) const {
  constexpr size_t kCasts = 8;  // a launch a part
  for (const size_t b : flow_.Behind(i, kCasts)) {
    const LaunchPlace& place = flow_.at(b);
    if (place.classes) return true;
    if (place.gemm || place.attention || place.rows > 0) return false;
  }
  return false;
}

// What is done with the layer's result. Several layers that follow each other at once have one
// input; their results are used in their order, each by kernels that move as much.
void ForwardLayers::LookBehind(size_t i, Around& around) const {
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
    if (place.gemm || place.attention || place.classes) break;
    const bool next_weights = place.quantises && flow_.weights().Has(place.moved);
    if (place.moved <= 0 || place.gathers || next_weights) continue;
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
  around.to_loss = end - first == 1 && GivesLoss(i);
  around.as_before = attention && end - first == kWithKeys && i + 1 == end;
}

MatrixSizes ForwardLayers::Of(size_t i) const {
  const Around around = Look(i);
  if (around.as_before && sizes_.known()) return sizes_;
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

std::pair<std::vector<int64_t>, std::vector<int64_t>> ForwardLayers::Candidates(
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
  if (around.to_loss) AddNew(widths, flow_.words());
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

// Whether a layer with an input of so many elements may have weights of so many: those that are
// cast for it, or, where none are made 8 bits, that a framework has gathered.
bool ForwardLayers::Weighs(int64_t w, int64_t x, const Around& around) const {
  const WeightSizes& gathered = flow_.weights();
  bool cast = false;
  for (const size_t b : around.before) {
    const LaunchPlace& place = flow_.at(b);
    if (!place.copies || place.Moves(x)) continue;
    if (place.Moves(w)) return true;
    cast |= place.quantises && gathered.Has(place.moved);
  }
  return !cast && gathered.Has(w);
}

double ForwardLayers::Score(size_t i, const MatrixSizes& s, const Around& around) const {
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
  const bool matrix = std::min(s.n, s.k) >= kLeastDepth;  // a vector is a norm's
  if (matrix && Weighs(w, x, around)) score += kTensor;
  if (around.to_loss && s.n == flow_.words()) score += kClasses;
  if (std::ranges::any_of(around.behind, [&](size_t b) { return moves(b, y); })) score += kTensor;
  if (around.same_input > 0 && s.k == around.same_input) score += kTensor;
  if (around.queries > 0 && s.n == around.queries) score += kTensor;
  if (s.k == flow_.columns()) score += kTypicalDepth;
  if (s.n == flow_.columns()) score += kTypicalWidth;
  return score;
}

}  // namespace foretrace
