// Ring reduce-scatter and all-gather (Patarasuk and Yuan, 2009), one lane per chunk and ring order.
// Chunks run side by side, so they share each link; they do not hide latency.

#include "simulator/network/collective/schedule.h"

namespace foretrace {
namespace {

class Ring : public CollectiveSchedule {
 public:
  Ring(const CollectiveRequest& r, bool two_way) : n_(r.ranks), op_(r.op), orders_(r.ring_orders) {
    if (orders_.empty()) {
      orders_.emplace_back();
      for (int32_t i = 0; i < n_; ++i) orders_.back().push_back(i);
    }
    if (two_way) {
      const size_t one_way = orders_.size();
      for (size_t o = 0; o < one_way; ++o) {
        orders_.emplace_back(orders_[o].rbegin(), orders_[o].rend());
      }
    }
    for (const auto& order : orders_) {
      auto& position = positions_.emplace_back(order.size());
      for (size_t p = 0; p < order.size(); ++p) {
        position[static_cast<size_t>(order[p])] = static_cast<int32_t>(p);
      }
    }
    lanes_ = r.chunks * static_cast<int32_t>(orders_.size());
    bytes_ = r.bytes / n_ / lanes_;
    total_ = r.bytes;
  }

  int32_t ranks() const override { return n_; }
  int32_t lanes() const override { return lanes_; }
  int32_t steps() const override { return op_ == CollectiveOp::kAllReduce ? 2 * (n_ - 1) : n_ - 1; }
  void Sends(int32_t rank, int32_t lane, int32_t step, std::vector<Send>& out) const override {
    const size_t o = static_cast<size_t>(lane) % orders_.size();
    const int32_t next = positions_[o][static_cast<size_t>(rank)] + 1;
    const int32_t to = orders_[o][static_cast<size_t>(next == n_ ? 0 : next)];
    out.push_back({to, bytes_, Reducing(step)});
  }
  int32_t Receives(int32_t, int32_t, int32_t) const override { return 1; }
  int32_t SameStep(int32_t) const override { return 0; }
  int64_t flows() const override { return int64_t{lanes_} * steps() * n_; }
  double ClosedForm(const AlphaBeta& net) const override {
    return steps() * (net.alpha + total_ / n_ / net.bandwidth);
  }

  int32_t blocks() const override { return n_; }
  void SentBlocks(int32_t rank, int32_t lane, int32_t step, int32_t,
                  std::vector<int32_t>& out) const override {
    const size_t o = static_cast<size_t>(lane) % orders_.size();
    const int32_t x = positions_[o][static_cast<size_t>(rank)];
    // Reduce-scatter leaves block x at position x; all-gather starts from there.
    int32_t position = 0;
    if (Reducing(step)) {
      position = x - step - 1;
    } else {
      position = x - (op_ == CollectiveOp::kAllReduce ? step - (n_ - 1) : step);
    }
    out.push_back(orders_[o][static_cast<size_t>((position % n_ + n_) % n_)]);
  }

 private:
  bool Reducing(int32_t step) const {
    return op_ == CollectiveOp::kReduceScatter ||
           (op_ == CollectiveOp::kAllReduce && step < n_ - 1);
  }

  int32_t n_;
  CollectiveOp op_;
  std::vector<std::vector<int32_t>> orders_;
  std::vector<std::vector<int32_t>> positions_;  // of each rank in each order
  int32_t lanes_ = 1;
  double bytes_ = 0;
  double total_ = 0;
};

}  // namespace

std::unique_ptr<CollectiveSchedule> MakeRing(const CollectiveRequest& request, bool two_way) {
  return std::make_unique<Ring>(request, two_way);
}

}  // namespace foretrace
