// Broadcast and reduce along chains, one per ring order, pipelined: all hops stream at once, and
// the last piece passes hop by hop behind. The root is rank 0: a broadcast starts there and runs
// round the ring, a reduce ends there.

#include <algorithm>

#include "simulator/network/collective/schedule.h"

namespace foretrace {
namespace {

class Chain : public CollectiveSchedule {
 public:
  explicit Chain(const CollectiveRequest& r)
      : n_(r.ranks), reduce_(r.op == CollectiveOp::kReduce), orders_(OrdersOf(r)) {
    for (auto& order : orders_) {
      const auto root = std::find(order.begin(), order.end(), 0);
      std::rotate(order.begin(), reduce_ ? root + 1 : root, order.end());
      auto& position = positions_.emplace_back(order.size());
      for (size_t p = 0; p < order.size(); ++p) {
        position[static_cast<size_t>(order[p])] = static_cast<int32_t>(p);
      }
    }
    bytes_ = r.bytes / lanes();
    piece_ = bytes_ * PieceShare(r);
  }

  int32_t ranks() const override { return n_; }
  int32_t lanes() const override { return static_cast<int32_t>(orders_.size()); }
  // Step 0 streams; the first hop has no piece of its own: its stream carries everything. Then the
  // rank at position x sends the piece in step x.
  int32_t steps() const override { return n_ - 1; }
  void Sends(int32_t rank, int32_t lane, int32_t step, std::vector<Send>& out) const override {
    const int32_t x = Position(rank, lane);
    if (x == n_ - 1 || (step > 0 ? x != step : x > 0 && !Rest())) return;
    const double bytes = step > 0 ? piece_ : x == 0 ? bytes_ : bytes_ - piece_;
    out.push_back({orders_[static_cast<size_t>(lane)][static_cast<size_t>(x + 1)], bytes, reduce_});
  }
  int32_t Receives(int32_t rank, int32_t lane, int32_t step) const override {
    const int32_t x = Position(rank, lane);
    return step > 0 ? x == step + 1 : x == 1 || (x > 1 && Rest());
  }
  int32_t NextStep(int32_t rank, int32_t lane, int32_t step) const override {
    if (step == 0) return 0;
    const int32_t x = Position(rank, lane);
    return std::min(steps(), x - 1 >= step ? x - 1 : x >= step ? x : steps());
  }
  int64_t flows() const override {
    return n_ == 1 ? 0 : int64_t{lanes()} * (Rest() ? 2 * n_ - 3 : n_ - 1);
  }
  double ClosedForm(const AlphaBeta& net) const override {
    if (n_ == 1) return 0;
    return (n_ - 1) * net.alpha + lanes() * (std::max(0, n_ - 2) * piece_ + bytes_) / net.bandwidth;
  }
  int32_t blocks() const override { return Rest() ? 2 : 1; }
  int32_t rounds(int32_t, int32_t step) const override { return step == 0 ? n_ - 1 : 1; }
  void SentBlocks(int32_t rank, int32_t lane, int32_t step, int32_t, int32_t round,
                  std::vector<int32_t>& out) const override {
    const int32_t x = Position(rank, lane);
    if (step > 0) {
      out.push_back(0);
    } else if (round == x) {
      if (x == 0) out.push_back(0);
      if (Rest()) out.push_back(1);
    }
  }

 private:
  // Something is left to stream beside the piece.
  bool Rest() const { return bytes_ > piece_; }
  int32_t Position(int32_t rank, int32_t lane) const {
    return positions_[static_cast<size_t>(lane)][static_cast<size_t>(rank)];
  }

  int32_t n_;
  bool reduce_;
  std::vector<std::vector<int32_t>> orders_;
  std::vector<std::vector<int32_t>> positions_;  // of each rank in each order
  double bytes_ = 0;                             // of a lane
  double piece_ = 0;                             // of it
};

}  // namespace

std::unique_ptr<CollectiveSchedule> MakeChain(const CollectiveRequest& request) {
  return std::make_unique<Chain>(request);
}

}  // namespace foretrace
