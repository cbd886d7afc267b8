// Everyone sends to everyone who needs it, at once: one step (two for all-reduce). The root of
// rooted operations is rank 0. A grouped send/recv whose members are not known one by one is a
// shift: every rank sends to the next, as nccl-tests' sendrecv does.

#include <algorithm>
#include <utility>

#include "simulator/network/collective/schedule.h"

namespace foretrace {
namespace {

class Direct : public CollectiveSchedule {
 public:
  explicit Direct(const CollectiveRequest& r)
      : n_(r.ranks), op_(r.op), pair_(r.point_to_point), bytes_(r.bytes), splits_(r.split_bytes) {}

  int32_t ranks() const override { return n_; }
  int32_t steps() const override {
    if (n_ == 1) return 0;
    return !pair_ && op_ == CollectiveOp::kAllReduce ? 2 : 1;
  }
  void Sends(int32_t rank, int32_t, int32_t step, std::vector<Send>& out) const override {
    const auto [begin, end] = Targets(rank);
    for (int32_t to = begin; to < end; ++to) {
      if (Sending(rank, to)) out.push_back({to, Size(rank, to), Reducing(step)});
    }
  }
  int32_t Receives(int32_t rank, int32_t, int32_t) const override {
    if (splits_.empty() && !pair_ && EveryPair()) return n_ - 1;
    const bool from_root = op_ == CollectiveOp::kBroadcast || op_ == CollectiveOp::kScatter;
    if (pair_ || from_root) return Sending(0, rank) ? 1 : 0;
    if (op_ == CollectiveOp::kSendRecv) return n_ > 1 ? 1 : 0;
    int32_t count = 0;
    for (int32_t from = 0; from < n_; ++from) count += Sending(from, rank) ? 1 : 0;
    return count;
  }
  int32_t SameStep(int32_t) const override { return 0; }
  std::optional<RealBytes> BytesOfEveryPair() const override {
    if (pair_ || !splits_.empty() || !EveryPair()) return std::nullopt;
    return bytes_ / n_;
  }
  int64_t flows() const override {
    if (pair_ || !splits_.empty() || !EveryPair()) return CollectiveSchedule::flows();
    return int64_t{n_} * (n_ - 1) * steps();
  }
  // The busiest port carries its data once (all-reduce: twice). For unequal splits that is the
  // least time, which fair sharing need not reach.
  RealSeconds ClosedForm(const AlphaBeta& net) const override {
    if (n_ == 1) return {};
    RealBytes busiest;
    if (splits_.empty()) {
      const RealBytes share = bytes_ / n_;
      if (pair_ || op_ == CollectiveOp::kSendRecv) {
        busiest = bytes_;
      } else if (PassesWhole(op_)) {
        busiest = (n_ - 1) * bytes_;
      } else {
        busiest = (n_ - 1) * share;
      }
    } else {
      for (int32_t i = 0; i < n_; ++i) {
        RealBytes sent;
        RealBytes received;
        for (int32_t j = 0; j < n_; ++j) {
          if (i == j) continue;
          sent += Size(i, j);
          received += Size(j, i);
        }
        busiest = std::max({busiest, sent, received});
      }
    }
    return steps() * (net.alpha + busiest / net.bandwidth);
  }
  int32_t blocks() const override {
    if (pair_ || PassesWhole(op_)) return 1;
    return op_ == CollectiveOp::kAllToAll ? n_ * n_ : n_;
  }
  void SentBlocks(int32_t rank, int32_t lane, int32_t step, int32_t k, int32_t,
                  std::vector<int32_t>& out) const override {
    if (blocks() == 1) {
      out.push_back(0);
      return;
    }
    std::vector<Send> sends;
    Sends(rank, lane, step, sends);
    const int32_t to = sends[static_cast<size_t>(k)].to;
    if (op_ == CollectiveOp::kAllToAll) {
      out.push_back(rank * n_ + to);
    } else {
      out.push_back(Reducing(step) || op_ == CollectiveOp::kScatter ? to : rank);
    }
  }

 private:
  bool EveryPair() const {
    return op_ == CollectiveOp::kAllReduce || op_ == CollectiveOp::kAllGather ||
           op_ == CollectiveOp::kReduceScatter || op_ == CollectiveOp::kAllToAll;
  }
  // Whom `from` may send to, at most: [begin, end).
  std::pair<int32_t, int32_t> Targets(int32_t from) const {
    if (pair_) return {1, from == 0 ? std::min(n_, 2) : 1};
    switch (op_) {
      case CollectiveOp::kBroadcast:
      case CollectiveOp::kScatter:
        return {0, from == 0 ? n_ : 0};
      case CollectiveOp::kReduce:
      case CollectiveOp::kGather:
        return {0, 1};
      case CollectiveOp::kSendRecv: {
        const int32_t next = (from + 1) % n_;
        return {next, next + 1};
      }
      default:
        return {0, n_};
    }
  }
  bool Sending(int32_t from, int32_t to) const {
    if (from == to) return false;
    if (pair_) return from == 0 && to == 1;
    switch (op_) {
      case CollectiveOp::kBroadcast:
      case CollectiveOp::kScatter:
        return from == 0;
      case CollectiveOp::kReduce:
      case CollectiveOp::kGather:
        return to == 0;
      case CollectiveOp::kSendRecv:
        return to == (from + 1) % n_;
      default:
        return splits_.empty() || Size(from, to) > RealBytes();
    }
  }
  RealBytes Size(int32_t from, int32_t to) const {
    if (!splits_.empty()) {
      return RealBytes(Bytes(
          splits_[static_cast<size_t>(from) * static_cast<size_t>(n_) + static_cast<size_t>(to)]));
    }
    const bool whole = pair_ || PassesWhole(op_) || op_ == CollectiveOp::kSendRecv;
    return whole ? bytes_ : bytes_ / n_;
  }
  bool Reducing(int32_t step) const {
    return op_ == CollectiveOp::kReduce || op_ == CollectiveOp::kReduceScatter ||
           (op_ == CollectiveOp::kAllReduce && step == 0);
  }

  int32_t n_;
  CollectiveOp op_;
  bool pair_;
  RealBytes bytes_;
  std::vector<int64_t> splits_;
};

}  // namespace

std::unique_ptr<CollectiveSchedule> MakeDirect(const CollectiveRequest& request) {
  return std::make_unique<Direct>(request);
}

}  // namespace foretrace
