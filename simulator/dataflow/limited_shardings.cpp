#include "simulator/dataflow/limited_shardings.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <queue>

#include "simulator/base/check.h"

namespace foretrace::dataflow {
namespace {

struct Solution {
  std::vector<size_t> chosen;
  int64_t ps = 0, bytes = 0;
};

class BranchAndBound {
 public:
  BranchAndBound(const ShardingProblem& problem, const ShardingObjective& time,
                 const ShardingObjective& bytes, int64_t most, int64_t cutoff_ps)
      : problem_(problem), time_(time), bytes_(bytes), most_(most), best_ps_(cutoff_ps) {}

  LimitedShardings Solve(int most_nodes) {
    Push(Bounded({}, std::numeric_limits<int64_t>::min()));
    LimitedShardings out;
    int64_t open = best_ps_;
    for (int nodes = 0; !open_.empty(); ++nodes) {
      if (nodes == most_nodes || open_.top().bound_ps >= best_ps_) {
        open = std::min(open, open_.top().bound_ps);
        break;
      }
      const Node node = open_.top();
      open_.pop();
      Branch(node);
    }
    out.bound_ps = std::min(open, best_ps_);
    out.exact = open >= best_ps_;
    std::reverse(found_.begin(), found_.end());
    for (const Solution& s : found_) out.found.push_back(problem_.ShardingsOf(s.chosen));
    return out;
  }

 private:
  struct Node {
    ShardingProblem::Mask mask;
    int64_t bound_ps = 0;
    bool closed = true;       // there is nothing to branch on
    Solution least, fitting;  // too large, and what the multiplier goes against
    bool operator<(const Node& o) const { return bound_ps > o.bound_ps; }
  };

  Solution Of(double weight, const ShardingProblem::Mask& mask) const {
    const auto both = [weight](const ShardingCost& time, const ShardingCost& bytes) {
      return ShardingCost{time.ps + std::llround(weight * static_cast<double>(bytes.ps)),
                          time.bytes};
    };
    ShardingObjective sum;
    sum.kernel = [&](size_t i, const ShardedKernel& k) {
      return both(time_.kernel(i, k), bytes_.kernel(i, k));
    };
    sum.tensor = [&](const ShardedTensor& t) { return both(time_.tensor(t), bytes_.tensor(t)); };
    return Measured(problem_.Solve(weight > 0 ? sum : time_, mask));
  }
  Solution Measured(std::vector<size_t> chosen) const {
    Solution s{std::move(chosen), 0, 0};
    s.ps = problem_.CostOf(s.chosen, time_).ps;
    s.bytes = problem_.CostOf(s.chosen, bytes_).ps;
    return s;
  }

  void Note(const Solution& s) {
    if (s.bytes > most_ || s.ps >= best_ps_) return;
    best_ps_ = s.ps;
    found_.push_back(s);
  }

  // The least time, the least bytes, and between them the multiplier with the highest bound: the
  // slope between a solution that is too large and one that fits, as long as it finds another.
  Node Bounded(ShardingProblem::Mask mask, int64_t parent_ps) {
    Node node;
    Solution fast = Of(0, mask);
    node.bound_ps = std::max(parent_ps, fast.ps);
    Note(fast);
    if (fast.bytes <= most_) return node;
    Solution small = Measured(problem_.Solve(bytes_, mask));
    if (small.bytes > most_) {
      node.bound_ps = std::numeric_limits<int64_t>::max();
      return node;
    }
    Note(small);
    constexpr int kSteps = 12;
    for (int step = 0; step < kSteps && small.ps > fast.ps; ++step) {
      const double slope =
          static_cast<double>(small.ps - fast.ps) / static_cast<double>(fast.bytes - small.bytes);
      Solution next = Of(slope, mask);
      const auto sum = [&](const Solution& s) {
        return static_cast<double>(s.ps) + slope * static_cast<double>(s.bytes);
      };
      // Each term's product is rounded.
      const double bound = sum(next) - slope * static_cast<double>(most_) - kTerms();
      if (bound > 0)
        node.bound_ps = std::max(node.bound_ps, static_cast<int64_t>(std::floor(bound)));
      Note(next);
      if (sum(next) >= sum(fast) * (1 - 1e-12)) break;
      (next.bytes <= most_ ? small : fast) = std::move(next);
    }
    node.closed = false;
    node.mask = std::move(mask);
    node.least = std::move(fast);
    node.fitting = std::move(small);
    return node;
  }
  double kTerms() const {
    return static_cast<double>(problem_.workload().kernels.size() +
                               2 * problem_.workload().tensors.size());
  }

  void Push(Node node) {
    if (!node.closed && node.bound_ps < best_ps_) open_.push(std::move(node));
  }

  // On the kernel that both sides of the multiplier shard otherwise and that has most at stake.
  void Branch(const Node& node) {
    std::optional<size_t> kernel;
    double most = -1;
    for (size_t i = 0; i < node.least.chosen.size(); ++i) {
      const size_t a = node.least.chosen[i], b = node.fitting.chosen[i];
      if (a == b) continue;
      const ShardedKernel &x = problem_.sharded(i, a), &y = problem_.sharded(i, b);
      const double stake = std::abs(x.weight_bytes.count() - y.weight_bytes.count()) +
                           std::abs(x.output_bytes.count() - y.output_bytes.count());
      if (stake > most) most = stake, kernel = i;
    }
    FORETRACE_CHECK(kernel.has_value());  // one of the two fits, the other does not
    ShardingProblem::Mask fixed = node.mask;
    if (fixed.empty()) {
      for (const auto& of : problem_.choices()) fixed.emplace_back(of.size(), true);
    }
    ShardingProblem::Mask without = fixed;
    const size_t choice = node.least.chosen[*kernel];
    fixed[*kernel].assign(fixed[*kernel].size(), false);
    fixed[*kernel][choice] = true;
    without[*kernel][choice] = false;
    Push(Bounded(std::move(fixed), node.bound_ps));
    const std::vector<bool>& left = without[*kernel];
    if (std::find(left.begin(), left.end(), true) != left.end())
      Push(Bounded(std::move(without), node.bound_ps));
  }

  const ShardingProblem& problem_;
  const ShardingObjective& time_;
  const ShardingObjective& bytes_;
  int64_t most_ = 0, best_ps_ = 0;
  std::vector<Solution> found_;
  std::priority_queue<Node> open_;
};

}  // namespace

LimitedShardings SolveWithin(const ShardingProblem& problem, const ShardingObjective& time,
                             const ShardingObjective& bytes, int64_t most, int64_t cutoff_ps,
                             int nodes) {
  return BranchAndBound(problem, time, bytes, most, cutoff_ps).Solve(nodes);
}

}  // namespace foretrace::dataflow
