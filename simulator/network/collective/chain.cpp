// Broadcast and reduce along chains, one per ring order, pipelined: all hops stream at once, behind
// a first piece that has to pass hop by hop. The root is rank 0: a broadcast starts there and runs
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
  int32_t steps() const override { return n_ == 1 ? 0 : 1; }
  void Sends(int32_t rank, int32_t lane, int32_t, std::vector<Send>& out) const override {
    const int32_t x = Position(rank, lane);
    if (x < n_ - 1) out.push_back({At(lane, x + 1), bytes_, reduce_});
  }
  int32_t Receives(int32_t rank, int32_t lane, int32_t) const override {
    return Position(rank, lane) > 0 ? 1 : 0;
  }
  void Pieces(int32_t lane, std::vector<Hop>& out) const override {
    for (int32_t x = 0; x + 1 < n_; ++x) out.push_back({At(lane, x), At(lane, x + 1), piece_});
  }
  int64_t flows() const override { return int64_t{lanes()} * (n_ - 1); }
  RealSeconds ClosedForm(const AlphaBeta& net) const override {
    if (n_ == 1) return {};
    return (n_ - 1) * net.alpha + lanes() * ((n_ - 2) * piece_ + bytes_) / net.bandwidth;
  }
  int32_t blocks() const override { return 1; }
  int32_t rounds(int32_t, int32_t) const override { return n_ - 1; }
  void SentBlocks(int32_t rank, int32_t lane, int32_t, int32_t, int32_t round,
                  std::vector<int32_t>& out) const override {
    if (round == Position(rank, lane)) out.push_back(0);
  }

 private:
  int32_t At(int32_t lane, int32_t position) const {
    return orders_[static_cast<size_t>(lane)][static_cast<size_t>(position)];
  }
  int32_t Position(int32_t rank, int32_t lane) const {
    return positions_[static_cast<size_t>(lane)][static_cast<size_t>(rank)];
  }

  int32_t n_;
  bool reduce_;
  std::vector<std::vector<int32_t>> orders_;
  std::vector<std::vector<int32_t>> positions_;  // of each rank in each order
  RealBytes bytes_;                              // of a lane
  RealBytes piece_;                              // of it
};

}  // namespace

std::unique_ptr<CollectiveSchedule> MakeChain(const CollectiveRequest& request) {
  return std::make_unique<Chain>(request);
}

}  // namespace foretrace
