// Broadcast and reduce along a chain, pipelined over chunks. The root is rank 0.

#include "simulator/network/collective/schedule.h"

namespace foretrace {
namespace {

class Chain : public CollectiveSchedule {
 public:
  explicit Chain(const CollectiveRequest& r)
      : n_(r.ranks),
        reduce_(r.op == CollectiveOp::kReduce),
        chunks_(r.chunks),
        bytes_(r.bytes / r.chunks) {}

  int32_t ranks() const override { return n_; }
  int32_t lanes() const override { return chunks_; }
  int32_t steps() const override { return n_ - 1; }
  bool serial() const override { return true; }
  void Sends(int32_t rank, int32_t, int32_t step, std::vector<Send>& out) const override {
    if (step != SendStep(rank)) return;
    out.push_back({reduce_ ? rank - 1 : rank + 1, bytes_, reduce_});
  }
  int32_t Receives(int32_t rank, int32_t, int32_t step) const override {
    const int32_t from = reduce_ ? rank + 1 : rank - 1;
    return from >= 0 && from < n_ && step == SendStep(from) ? 1 : 0;
  }
  int64_t flows() const override { return int64_t{chunks_} * steps(); }
  double ClosedForm(const AlphaBeta& net) const override {
    if (n_ == 1) return 0;
    const double chunk = bytes_ / net.bandwidth;
    return steps() * (net.alpha + chunk) + (chunks_ - 1) * chunk;
  }
  int32_t blocks() const override { return 1; }
  void SentBlocks(int32_t, int32_t, int32_t, int32_t, std::vector<int32_t>& out) const override {
    out.push_back(0);
  }

 private:
  // The step in which `rank` passes data on; n-1 and more: never.
  int32_t SendStep(int32_t rank) const { return reduce_ ? n_ - 1 - rank : rank; }

  int32_t n_;
  bool reduce_;
  int32_t chunks_;
  double bytes_;
};

}  // namespace

std::unique_ptr<CollectiveSchedule> MakeChain(const CollectiveRequest& request) {
  return std::make_unique<Chain>(request);
}

}  // namespace foretrace
