// All-reduce inside the switch: what its ports carry. A port sends and receives the data (more than
// once, see NvlsCost; that is in the request's bytes), after the pieces that fill and drain its
// stages. Peers do not matter in a non-blocking switch, so every rank sends to the next.

#include "simulator/network/collective/schedule.h"

namespace foretrace {
namespace {

class InSwitch : public CollectiveSchedule {
 public:
  explicit InSwitch(const CollectiveRequest& r)
      : n_(r.ranks), bytes_(r.bytes), fill_(r.piece.value_or(r.bytes / r.chunks)) {}

  int32_t ranks() const override { return n_; }
  int32_t steps() const override { return n_ == 1 ? 0 : 2; }
  void Sends(int32_t rank, int32_t, int32_t step, std::vector<Send>& out) const override {
    out.push_back({(rank + 1) % n_, step == 0 ? fill_ : bytes_, true});
  }
  int32_t Receives(int32_t, int32_t, int32_t) const override { return 1; }
  int64_t flows() const override { return int64_t{n_} * steps(); }
  RealSeconds ClosedForm(const AlphaBeta& net) const override {
    if (n_ == 1) return {};
    return 2 * net.alpha + (fill_ + bytes_) / net.bandwidth;
  }
  // The switch computes: there is no rank-to-rank data to follow.
  int32_t blocks() const override { return 0; }
  void SentBlocks(int32_t, int32_t, int32_t, int32_t, int32_t,
                  std::vector<int32_t>&) const override {}

 private:
  int32_t n_;
  RealBytes bytes_;
  RealBytes fill_;
};

}  // namespace

std::unique_ptr<CollectiveSchedule> MakeInSwitch(const CollectiveRequest& request) {
  return std::make_unique<InSwitch>(request);
}

}  // namespace foretrace
