// Ring reduce-scatter and all-gather (Patarasuk and Yuan, 2009), one lane per ring order. The n-1
// equal steps of either are one pipeline: a token takes n-2 hops, then every rank streams to the
// next, so that the last stream ends n-1 latencies and (n-1)/n of the data after the start. The
// all-gather of an all-reduce starts where its reduce-scatter ended last.

#include <algorithm>

#include "simulator/network/collective/schedule.h"

namespace foretrace {
namespace {

class Ring : public CollectiveSchedule {
 public:
  Ring(const CollectiveRequest& r, bool two_way)
      : n_(r.ranks), op_(r.op), orders_(OrdersOf(r)), total_(r.bytes) {
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
    bytes_ = r.bytes / n_ / lanes() * (n_ - 1);
  }

  int32_t ranks() const override { return n_; }
  int32_t lanes() const override { return static_cast<int32_t>(orders_.size()); }
  int32_t steps() const override { return op_ == CollectiveOp::kAllReduce ? 2 * (n_ - 1) : n_ - 1; }
  void Sends(int32_t rank, int32_t lane, int32_t step, std::vector<Send>& out) const override {
    const int32_t k = step % (n_ - 1);
    const bool stream = k == n_ - 2;
    if (!stream && Place(rank, lane, step) != k) return;
    const auto& order = orders_[static_cast<size_t>(lane)];
    const int32_t next = Position(rank, lane) + 1;
    out.push_back(
        {order[static_cast<size_t>(next == n_ ? 0 : next)], stream ? bytes_ : 0, Reducing(step)});
  }
  int32_t Receives(int32_t rank, int32_t lane, int32_t step) const override {
    const int32_t k = step % (n_ - 1);
    return k == n_ - 2 || Place(rank, lane, step) == k + 1 ? 1 : 0;
  }
  int32_t NextStep(int32_t rank, int32_t lane, int32_t step) const override {
    if (step >= steps()) return step;
    const int32_t k = step % (n_ - 1);
    const int32_t place = Place(rank, lane, step);  // receives in step place - 1, sends in place
    const int32_t due = place - 1 >= k ? place - 1 : place >= k ? place : n_ - 2;
    return step - k + std::min(due, n_ - 2);
  }
  int64_t flows() const override {
    return n_ == 1 ? 0 : int64_t{lanes()} * (steps() / (n_ - 1)) * (n_ - 2 + n_);
  }
  double ClosedForm(const AlphaBeta& net) const override {
    return steps() * (net.alpha + total_ / n_ / net.bandwidth);
  }

  int32_t blocks() const override { return n_; }
  int32_t rounds(int32_t, int32_t step) const override {
    return step % (n_ - 1) == n_ - 2 ? n_ - 1 : 1;
  }
  void SentBlocks(int32_t rank, int32_t lane, int32_t step, int32_t, int32_t round,
                  std::vector<int32_t>& out) const override {
    if (step % (n_ - 1) != n_ - 2) return;  // a token
    // Reduce-scatter leaves block x at position x; all-gather starts from there.
    const int32_t x = Position(rank, lane) - round - (Reducing(step) ? 1 : 0);
    out.push_back(orders_[static_cast<size_t>(lane)][static_cast<size_t>((x % n_ + n_) % n_)]);
  }

 private:
  bool Reducing(int32_t step) const {
    return op_ == CollectiveOp::kReduceScatter ||
           (op_ == CollectiveOp::kAllReduce && step < n_ - 1);
  }
  int32_t Position(int32_t rank, int32_t lane) const {
    return positions_[static_cast<size_t>(lane)][static_cast<size_t>(rank)];
  }
  // How many hops from the token's start `rank` is. Orders enter a node at its first member: the
  // hops that the tokens leave out, those before their starts, are the ones from position 0 and 1,
  // within a node.
  int32_t Place(int32_t rank, int32_t lane, int32_t step) const {
    const int32_t start = step < n_ - 1 ? 2 : 1;
    return (Position(rank, lane) - start % n_ + n_) % n_;
  }

  int32_t n_;
  CollectiveOp op_;
  std::vector<std::vector<int32_t>> orders_;
  std::vector<std::vector<int32_t>> positions_;  // of each rank in each order
  double bytes_ = 0;                             // of a stream
  double total_ = 0;
};

}  // namespace

std::unique_ptr<CollectiveSchedule> MakeRing(const CollectiveRequest& request, bool two_way) {
  return std::make_unique<Ring>(request, two_way);
}

}  // namespace foretrace
