// Ring reduce-scatter and all-gather (Patarasuk and Yuan, 2009), one lane per ring order. The n-1
// equal steps of either are one pipeline in which every rank has something to send from the start:
// all stream (n-1)/n of the data to the next rank at once. The first latency of a pipeline is in
// its stream; the other n-2, of an all-reduce twice as many, are those of a token that then runs
// round the ring.

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
  // Streams, then the token's hops.
  int32_t steps() const override { return streams() * (n_ - 1); }
  void Sends(int32_t rank, int32_t lane, int32_t step, std::vector<Send>& out) const override {
    const bool stream = step < streams();
    if (!stream && (step - streams()) % n_ != Place(rank, lane)) return;
    const auto& order = orders_[static_cast<size_t>(lane)];
    const int32_t next = Position(rank, lane) + 1;
    out.push_back({order[static_cast<size_t>(next == n_ ? 0 : next)], stream ? bytes_ : RealBytes(),
                   Reducing(step)});
  }
  int32_t Receives(int32_t rank, int32_t lane, int32_t step) const override {
    return step < streams() || (step - streams() + 1) % n_ == Place(rank, lane) ? 1 : 0;
  }
  int32_t NextStep(int32_t rank, int32_t lane, int32_t step) const override {
    if (step < streams()) return step;
    const int32_t hop = (step - streams()) % n_;
    const int32_t to_send = (Place(rank, lane) - hop + n_) % n_;
    const int32_t to_receive = (to_send + n_ - 1) % n_;
    return std::min(step + std::min(to_send, to_receive), steps());
  }
  int64_t flows() const override {
    return n_ == 1 ? 0 : int64_t{lanes()} * streams() * (n_ + n_ - 2);
  }
  RealSeconds ClosedForm(const AlphaBeta& net) const override {
    return steps() * (net.alpha + total_ / n_ / net.bandwidth);
  }

  int32_t blocks() const override { return n_; }
  int32_t rounds(int32_t, int32_t step) const override { return step < streams() ? n_ - 1 : 1; }
  void SentBlocks(int32_t rank, int32_t lane, int32_t step, int32_t, int32_t round,
                  std::vector<int32_t>& out) const override {
    if (step >= streams()) return;  // the token
    // Reduce-scatter leaves block x at position x; all-gather starts from there.
    const int32_t x = Position(rank, lane) - round - (Reducing(step) ? 1 : 0);
    out.push_back(orders_[static_cast<size_t>(lane)][static_cast<size_t>((x % n_ + n_) % n_)]);
  }

 private:
  int32_t streams() const { return op_ == CollectiveOp::kAllReduce ? 2 : 1; }
  bool Reducing(int32_t step) const {
    return op_ == CollectiveOp::kReduceScatter || (op_ == CollectiveOp::kAllReduce && step == 0);
  }
  int32_t Position(int32_t rank, int32_t lane) const {
    return positions_[static_cast<size_t>(lane)][static_cast<size_t>(rank)];
  }
  // How many hops from the token's start `rank` is. The hops into the start are in the streams; of
  // a whole number of rounds, those before them are left out. Orders enter a node at its first
  // member, so that these are the ones from position 0 (and 1), within a node.
  int32_t Place(int32_t rank, int32_t lane) const {
    return (Position(rank, lane) - 2 * streams() % n_ + n_) % n_;
  }

  int32_t n_;
  CollectiveOp op_;
  std::vector<std::vector<int32_t>> orders_;
  std::vector<std::vector<int32_t>> positions_;  // of each rank in each order
  RealBytes bytes_;                              // of a stream
  RealBytes total_;
};

}  // namespace

std::unique_ptr<CollectiveSchedule> MakeRing(const CollectiveRequest& request, bool two_way) {
  return std::make_unique<Ring>(request, two_way);
}

}  // namespace foretrace
