// Barrier by dissemination (Hensgen, Finkel and Manber, 1988): in step k every rank signals the one
// 2^k places on.

#include "simulator/network/collective/schedule.h"

namespace foretrace {
namespace {

class Dissemination : public CollectiveSchedule {
 public:
  explicit Dissemination(const CollectiveRequest& r) : n_(r.ranks) {
    while ((int64_t{1} << log_) < n_) ++log_;
  }
  int32_t ranks() const override { return n_; }
  int32_t steps() const override { return log_; }
  void Sends(int32_t rank, int32_t, int32_t step, std::vector<Send>& out) const override {
    out.push_back({static_cast<int32_t>((rank + (int64_t{1} << step)) % n_), RealBytes(), true});
  }
  int32_t Receives(int32_t, int32_t, int32_t) const override { return 1; }
  RealSeconds ClosedForm(const AlphaBeta& net) const override { return log_ * net.alpha; }
  int32_t blocks() const override { return 1; }
  void SentBlocks(int32_t, int32_t, int32_t, int32_t, int32_t,
                  std::vector<int32_t>& out) const override {
    out.push_back(0);
  }

 private:
  int32_t n_;
  int32_t log_ = 0;
};

}  // namespace

std::unique_ptr<CollectiveSchedule> MakeDissemination(const CollectiveRequest& request) {
  return std::make_unique<Dissemination>(request);
}

}  // namespace foretrace
