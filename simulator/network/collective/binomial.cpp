// Broadcast, reduce, gather and scatter over a binomial tree rooted at rank 0.

#include <algorithm>

#include "simulator/network/collective/schedule.h"

namespace foretrace {
namespace {

class Binomial : public CollectiveSchedule {
 public:
  explicit Binomial(const CollectiveRequest& r) : n_(r.ranks), op_(r.op), bytes_(r.bytes) {
    while ((int64_t{1} << log_) < n_) ++log_;
  }

  int32_t ranks() const override { return n_; }
  int32_t steps() const override { return log_; }
  void Sends(int32_t rank, int32_t, int32_t step, std::vector<Send>& out) const override {
    const int32_t to = Target(rank, step);
    if (to >= 0) out.push_back({to, Size(rank, to), op_ == CollectiveOp::kReduce});
  }
  int32_t Receives(int32_t rank, int32_t, int32_t step) const override {
    const int32_t distance = 1 << Bit(step);
    const int32_t from = TowardsRoot() ? rank + distance : rank - distance;
    return from >= 0 && from < n_ && Target(from, step) == rank ? 1 : 0;
  }
  int64_t flows() const override { return n_ - 1; }
  // Broadcast and scatter: exact, by walking the tree. Reduce and gather: exact for powers of two,
  // else an estimate within a factor of two, since subtrees of different depth overlap.
  RealSeconds ClosedForm(const AlphaBeta& net) const override {
    if (TowardsRoot()) {
      RealSeconds total;
      for (int32_t k = 0; k < log_; ++k) {
        const RealBytes size = op_ == CollectiveOp::kReduce ? bytes_ : bytes_ / n_ * (1 << k);
        total += net.alpha + size / net.bandwidth;
      }
      return total;
    }
    std::vector<RealSeconds> ready(static_cast<size_t>(n_));
    RealSeconds last;
    for (int32_t step = 0; step < log_; ++step) {
      for (int32_t rank = 0; rank < n_; ++rank) {
        const int32_t to = Target(rank, step);
        if (to < 0) continue;
        auto& sender = ready[static_cast<size_t>(rank)];
        sender += Size(rank, to) / net.bandwidth;
        ready[static_cast<size_t>(to)] = sender + net.alpha;
        last = std::max(last, sender + net.alpha);
      }
    }
    return last;
  }
  int32_t blocks() const override {
    return op_ == CollectiveOp::kGather || op_ == CollectiveOp::kScatter ? n_ : 1;
  }
  void SentBlocks(int32_t rank, int32_t, int32_t step, int32_t, int32_t,
                  std::vector<int32_t>& out) const override {
    if (blocks() == 1) {
      out.push_back(0);
      return;
    }
    const int32_t leaf = std::max(rank, Target(rank, step));
    for (int32_t b = leaf; b < End(leaf); ++b) out.push_back(b);
  }

 private:
  bool TowardsRoot() const { return op_ == CollectiveOp::kReduce || op_ == CollectiveOp::kGather; }
  // Gather joins neighbours first and scatter parts them last, so subtrees are runs of ranks;
  // broadcast doubles the ranks reached, near ones first; reduce mirrors it.
  int32_t Bit(int32_t step) const {
    const bool upwards = op_ == CollectiveOp::kBroadcast || op_ == CollectiveOp::kGather;
    return upwards ? step : log_ - 1 - step;
  }
  int32_t Target(int32_t rank, int32_t step) const {
    const int32_t bit = 1 << Bit(step);
    int32_t to = -1;
    switch (op_) {
      case CollectiveOp::kBroadcast:
        to = rank < bit ? rank + bit : -1;
        break;
      case CollectiveOp::kReduce:
        to = rank >= bit && rank < 2 * bit ? rank - bit : -1;
        break;
      case CollectiveOp::kScatter:
        to = rank % (2 * bit) == 0 ? rank + bit : -1;
        break;
      default:
        to = rank % (2 * bit) == bit ? rank - bit : -1;
    }
    return to < n_ ? to : -1;
  }
  // One past the last rank of the subtree that hangs off `rank` (gather and scatter).
  int32_t End(int32_t rank) const { return std::min(n_, rank + (rank & -rank)); }
  RealBytes Size(int32_t rank, int32_t to) const {
    if (blocks() == 1) return bytes_;
    const int32_t leaf = std::max(rank, to);
    return bytes_ / n_ * (End(leaf) - leaf);
  }

  int32_t n_;
  CollectiveOp op_;
  RealBytes bytes_;
  int32_t log_ = 0;
};

}  // namespace

std::unique_ptr<CollectiveSchedule> MakeBinomial(const CollectiveRequest& request) {
  return std::make_unique<Binomial>(request);
}

}  // namespace foretrace
