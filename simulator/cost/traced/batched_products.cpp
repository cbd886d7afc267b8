#include "simulator/cost/traced/batched_products.h"

#include <algorithm>
#include <cmath>

#include "simulator/cost/traced/attention_launches.h"

namespace foretrace {
namespace {

constexpr size_t kAroundScores = 3;  // kernels between scores and what is done to them
// What products of batches sum over, where nothing tells.
constexpr int64_t kDepth = AttentionLaunches::kHeadDimension;

}  // namespace

bool BatchedProducts::Is(size_t place) const {
  if (Batch(place) < 2) return false;
  const size_t none = flow_.order().size();
  return SoftmaxAmong(flow_.Behind(place, kAroundScores)) != none ||
         SoftmaxAmong(flow_.Before(place, kAroundScores)) != none ||
         Interaction(place).b == Batch(place);
}

// The softmax among these; the number of kernels: there is none.
size_t BatchedProducts::SoftmaxAmong(const std::vector<size_t>& places) const {
  const auto at = std::ranges::find_if(places, [&](size_t p) { return flow_.at(p).scores; });
  return at == places.end() ? flow_.order().size() : *at;
}

int64_t BatchedProducts::ScoreColumns(size_t softmax) const {
  const int64_t rows = flow_.at(softmax).rows;
  std::vector<size_t> around = flow_.Before(softmax, kAroundScores);
  for (const size_t p : flow_.Behind(softmax, kAroundScores)) around.push_back(p);
  int64_t moved = 0;
  for (const size_t p : around) moved = std::max(moved, flow_.at(p).Columns(rows));
  for (const size_t p : flow_.Before(softmax, kAroundScores)) {
    const LaunchPlace& gemm = flow_.at(p);
    if (gemm.tiles <= 0) continue;
    const int64_t batch = Batch(p);
    if (rows % batch != 0) continue;
    const int64_t m = rows / batch;
    if (moved > 0 && gemm.Holds(m, moved)) return moved;
    return gemm.Holds(m, m) ? m : gemm.Width(m);
  }
  return moved > kDepth ? moved : 0;
}

// Forward all pairs of features, of which a sum over their width; backward either's gradient, a sum
// over features.
BatchedMatmulOp BatchedProducts::Interaction(size_t place) const {
  const int64_t features = lookups_.tables() + 1, width = lookups_.width();
  if (lookups_.bags() != Batch(place) || width < 1) return {};
  const bool backward = flow_.backward(place);
  const int64_t columns = backward ? width : features;
  if (!flow_.at(place).Holds(features, columns)) return {};
  return {Batch(place), features, columns, backward ? features : width};
}

BatchedMatmulOp BatchedProducts::Of(size_t place) const {
  const double results = flow_.at(place).results();
  if (results <= 0) return {};
  const int64_t batch = Batch(place);
  const size_t behind = SoftmaxAmong(flow_.Behind(place, kAroundScores));
  const size_t before = SoftmaxAmong(flow_.Before(place, kAroundScores));
  const size_t none = flow_.order().size();
  const size_t softmax = behind != none ? behind : before;
  if (softmax == none || flow_.at(softmax).rows % batch != 0) {
    if (const BatchedMatmulOp op = Interaction(place); op.b > 0) return op;
    const int64_t side = std::max<int64_t>(std::llround(std::sqrt(results)), 1);
    return {batch, side, side, kDepth};
  }
  const int64_t rows = flow_.at(softmax).rows, columns = ScoreColumns(softmax);
  if (columns < 1) return {};
  if (behind != none) return {batch, rows / batch, columns, kDepth};
  const auto width = std::llround(results / static_cast<double>(rows / batch));
  return {batch, rows / batch, std::clamp<int64_t>(width, 1, kDepth), columns};
}

}  // namespace foretrace
