// All-reduce by recursive doubling: in every step partners exchange and combine all data. The
// fewest steps, the most bytes: for small messages. Surplus ranks fold onto the first ones.

#include "simulator/network/collective/schedule.h"

namespace foretrace {
namespace {

class RecursiveDoubling : public CollectiveSchedule {
 public:
  explicit RecursiveDoubling(const CollectiveRequest& r) : n_(r.ranks), bytes_(r.bytes) {
    while (2 * power_ <= n_) {
      power_ *= 2;
      ++log_;
    }
    surplus_ = n_ - power_;
    steps_ = log_ + (surplus_ > 0 ? 2 : 0);
  }

  int32_t ranks() const override { return n_; }
  int32_t steps() const override { return steps_; }
  void Sends(int32_t rank, int32_t, int32_t step, std::vector<Send>& out) const override {
    if (surplus_ > 0 && step == 0) {
      if (rank >= power_) out.push_back({rank - power_, bytes_, true});
    } else if (surplus_ > 0 && step == steps_ - 1) {
      if (rank < surplus_) out.push_back({rank + power_, bytes_, false});
    } else if (rank < power_) {
      out.push_back({rank ^ (1 << (surplus_ > 0 ? step - 1 : step)), bytes_, true});
    }
  }
  int32_t Receives(int32_t rank, int32_t, int32_t step) const override {
    if (surplus_ > 0 && step == 0) return rank < surplus_ ? 1 : 0;
    if (surplus_ > 0 && step == steps_ - 1) return rank >= power_ ? 1 : 0;
    return rank < power_ ? 1 : 0;
  }
  // Exact for powers of two. Else an estimate, within a factor of two: partners of a rank that is
  // still folding start to send to it, which halves the rate of both.
  RealSeconds ClosedForm(const AlphaBeta& net) const override {
    return steps_ * (net.alpha + bytes_ / net.bandwidth);
  }
  int32_t blocks() const override { return 1; }
  void SentBlocks(int32_t, int32_t, int32_t, int32_t, int32_t,
                  std::vector<int32_t>& out) const override {
    out.push_back(0);
  }

 private:
  int32_t n_;
  RealBytes bytes_;
  int32_t power_ = 1;
  int32_t log_ = 0;
  int32_t surplus_ = 0;
  int32_t steps_ = 0;
};

}  // namespace

std::unique_ptr<CollectiveSchedule> MakeRecursiveDoubling(const CollectiveRequest& request) {
  return std::make_unique<RecursiveDoubling>(request);
}

}  // namespace foretrace
