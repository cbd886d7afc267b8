// Reduce-scatter by recursive halving and all-gather by recursive doubling (Rabenseifner, 2004;
// Thakur, Rabenseifner and Gropp, 2005). Other than powers of two fold their surplus ranks onto
// the first ones before and after; that exists for all-reduce only.

#include "simulator/network/collective/schedule.h"

namespace foretrace {
namespace {

class HalvingDoubling : public CollectiveSchedule {
 public:
  explicit HalvingDoubling(const CollectiveRequest& r) : n_(r.ranks), op_(r.op), bytes_(r.bytes) {
    while (2 * power_ <= n_) {
      power_ *= 2;
      ++log_;
    }
    surplus_ = n_ - power_;
    const int32_t halves = op_ == CollectiveOp::kAllReduce ? 2 * log_ : log_;
    steps_ = halves + (surplus_ > 0 ? 2 : 0);
  }

  int32_t ranks() const override { return n_; }
  int32_t steps() const override { return steps_; }
  void Sends(int32_t rank, int32_t, int32_t step, std::vector<Send>& out) const override {
    if (Folds(step)) {
      if (rank >= power_) out.push_back({rank - power_, bytes_, true});
    } else if (Unfolds(step)) {
      if (rank < surplus_) out.push_back({rank + power_, bytes_, false});
    } else if (rank < power_) {
      const Exchange e = At(step);
      out.push_back({rank ^ e.distance, bytes_ * e.distance / power_, e.halving});
    }
  }
  int32_t Receives(int32_t rank, int32_t, int32_t step) const override {
    if (Folds(step)) return rank < surplus_ ? 1 : 0;
    if (Unfolds(step)) return rank >= power_ ? 1 : 0;
    return rank < power_ ? 1 : 0;
  }
  // Exact for powers of two. Else an estimate, within a factor of two: partners of a rank that is
  // still folding start to send to it, which halves the rate of both.
  RealSeconds ClosedForm(const AlphaBeta& net) const override {
    const int32_t passes = op_ == CollectiveOp::kAllReduce ? 2 : 1;
    const RealSeconds core =
        passes * (log_ * net.alpha + bytes_ * (power_ - 1) / power_ / net.bandwidth);
    return surplus_ == 0 ? core : core + 2 * (net.alpha + bytes_ / net.bandwidth);
  }
  int32_t blocks() const override { return power_; }
  void SentBlocks(int32_t rank, int32_t, int32_t step, int32_t, int32_t,
                  std::vector<int32_t>& out) const override {
    if (Folds(step) || Unfolds(step)) {
      for (int32_t b = 0; b < power_; ++b) out.push_back(b);
      return;
    }
    // The `distance` blocks on the partner's side of the split (halving), or its own (doubling).
    const Exchange e = At(step);
    const int32_t side = e.halving ? rank ^ e.distance : rank;
    const int32_t first = side / e.distance * e.distance;
    for (int32_t b = 0; b < e.distance; ++b) out.push_back(first + b);
  }

 private:
  struct Exchange {
    int32_t distance;
    bool halving;
  };
  bool Folds(int32_t step) const { return surplus_ > 0 && step == 0; }
  bool Unfolds(int32_t step) const { return surplus_ > 0 && step == steps_ - 1; }
  Exchange At(int32_t step) const {
    const int32_t k = surplus_ > 0 ? step - 1 : step;
    if (op_ != CollectiveOp::kAllGather && k < log_) return {power_ >> (k + 1), true};
    return {1 << (op_ == CollectiveOp::kAllGather ? k : k - log_), false};
  }

  int32_t n_;
  CollectiveOp op_;
  RealBytes bytes_;
  int32_t power_ = 1;  // the largest power of two that fits
  int32_t log_ = 0;
  int32_t surplus_ = 0;
  int32_t steps_ = 0;
};

}  // namespace

std::unique_ptr<CollectiveSchedule> MakeHalvingDoubling(const CollectiveRequest& request) {
  return std::make_unique<HalvingDoubling>(request);
}

}  // namespace foretrace
