#include "simulator/architect/core_bounds.h"

#include <algorithm>
#include <cmath>

namespace foretrace {
namespace {

constexpr int kSteps = 8;    // weights are multiples of an eighth
constexpr size_t kKept = 5;  // of the mixed ones

}  // namespace

// Sums of doubles are off by less than this; a bound must not be above what it bounds.
SimTime CoreBounds::RoundedDown(double ps) {
  return SimTime::FromPs(static_cast<int64_t>(std::ceil(ps * (1 - 1e-12) - 1e-6)));
}

CoreBounds::Weights CoreBounds::Make(const CoreGraph& graph, const std::vector<int32_t>& order,
                                     double path, double per_tensor, double per_vector) {
  const size_t n = graph.ops.size();
  Weights w;
  w.path = path;
  w.load.resize(n);
  w.off.resize(n);
  w.tail.resize(n);
  w.after.resize(n);
  for (size_t k = n; k-- > 0;) {
    const auto i = static_cast<size_t>(order[k]);
    const CoreOp& op = graph.ops[i];
    if (op.core != CoreClass::kVector) w.load[i] += per_tensor;
    if (op.core != CoreClass::kTensor) w.load[i] += per_vector;
    const auto one = static_cast<double>(op.one.ps()), all = static_cast<double>(op.all.ps());
    w.off[i] = std::min(all, w.load[i] * one);
    const double on = std::min(all, (w.load[i] + path) * one);
    w.tail[i] = w.after[i] + on - w.off[i];
    for (const auto& [from, to] : graph.edges) {
      const auto j = static_cast<size_t>(from);
      if (to == order[k]) w.after[j] = std::max(w.after[j], w.tail[i]);
    }
  }
  for (size_t i = 0; i < n; ++i) w.whole += w.off[i];
  w.whole += n == 0 ? 0 : *std::max_element(w.tail.begin(), w.tail.end());
  return w;
}

CoreBounds::CoreBounds(const CoreGraph& graph, const std::vector<int32_t>& order,
                       const CoreCounts& cores) {
  const CoreCounts most = Concurrency(graph, order);
  const double tensor = std::min(cores.tensor, most.tensor);
  const double vector = std::min(cores.vector, most.vector);
  std::vector<Weights> mixed;
  for (int p = 0; p <= kSteps; ++p) {
    for (int t = 0; p + t <= kSteps; ++t) {
      const int v = kSteps - p - t;
      Weights w = Make(graph, order, static_cast<double>(p) / kSteps, t / (kSteps * tensor),
                       v / (kSteps * vector));
      (p == kSteps || t == kSteps || v == kSteps ? weights_ : mixed).push_back(std::move(w));
    }
  }
  std::stable_sort(mixed.begin(), mixed.end(),
                   [](const Weights& a, const Weights& b) { return a.whole > b.whole; });
  mixed.resize(std::min(mixed.size(), kKept));
  for (Weights& w : mixed) weights_.push_back(std::move(w));
}

}  // namespace foretrace
