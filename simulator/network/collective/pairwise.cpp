// All-to-all and reduce-scatter in n-1 steps; in step s every rank sends to the one s+1 places on.

#include <algorithm>

#include "simulator/network/collective/schedule.h"

namespace foretrace {
namespace {

class Pairwise : public CollectiveSchedule {
 public:
  explicit Pairwise(const CollectiveRequest& r)
      : n_(r.ranks),
        reduce_(r.op == CollectiveOp::kReduceScatter),
        bytes_(r.bytes),
        splits_(r.split_bytes) {}

  int32_t ranks() const override { return n_; }
  int32_t steps() const override { return n_ - 1; }
  void Sends(int32_t rank, int32_t, int32_t step, std::vector<Send>& out) const override {
    const int32_t to = (rank + step + 1) % n_;
    if (Sending(rank, to)) out.push_back({to, Size(rank, to), reduce_});
  }
  int32_t Receives(int32_t rank, int32_t, int32_t step) const override {
    return Sending((rank - step - 1 + n_) % n_, rank) ? 1 : 0;
  }
  int64_t flows() const override {
    return splits_.empty() ? int64_t{n_} * (n_ - 1) : CollectiveSchedule::flows();
  }
  // Exact for equal splits. Unequal: a step takes as long as its largest message; ranks that finish
  // early run ahead, so it is an upper bound.
  RealSeconds ClosedForm(const AlphaBeta& net) const override {
    RealSeconds total;
    for (int32_t step = 0; step < steps(); ++step) {
      RealBytes largest = splits_.empty() ? bytes_ / n_ : RealBytes();
      for (int32_t r = 0; !splits_.empty() && r < n_; ++r) {
        largest = std::max(largest, Size(r, (r + step + 1) % n_));
      }
      total += net.alpha + largest / net.bandwidth;
    }
    return total;
  }
  int32_t blocks() const override { return reduce_ ? n_ : n_ * n_; }
  void SentBlocks(int32_t rank, int32_t, int32_t step, int32_t, int32_t,
                  std::vector<int32_t>& out) const override {
    const int32_t to = (rank + step + 1) % n_;
    out.push_back(reduce_ ? to : rank * n_ + to);
  }

 private:
  RealBytes Size(int32_t from, int32_t to) const {
    if (splits_.empty()) return bytes_ / n_;
    return RealBytes(Bytes(
        splits_[static_cast<size_t>(from) * static_cast<size_t>(n_) + static_cast<size_t>(to)]));
  }
  bool Sending(int32_t from, int32_t to) const {
    return splits_.empty() || Size(from, to) > RealBytes();
  }

  int32_t n_;
  bool reduce_;
  RealBytes bytes_;
  std::vector<int64_t> splits_;
};

}  // namespace

std::unique_ptr<CollectiveSchedule> MakePairwise(const CollectiveRequest& request) {
  return std::make_unique<Pairwise>(request);
}

}  // namespace foretrace
