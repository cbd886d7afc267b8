// All-to-all dimension by dimension: in phase d every rank exchanges, with the ranks that differ
// from it in coordinate d alone, all it holds for their side. Fewer and larger messages than
// direct.

#include "simulator/network/collective/schedule.h"

namespace foretrace {
namespace {

class HierarchicalAllToAll : public CollectiveSchedule {
 public:
  explicit HierarchicalAllToAll(const CollectiveRequest& r)
      : n_(r.ranks), bytes_(r.bytes), sizes_(r.dimensions), splits_(r.split_bytes) {
    int32_t stride = 1;
    for (int32_t size : sizes_) {
      strides_.push_back(stride);
      stride *= size;
    }
  }

  int32_t ranks() const override { return n_; }
  int32_t steps() const override { return static_cast<int32_t>(sizes_.size()); }
  void Sends(int32_t rank, int32_t, int32_t step, std::vector<Send>& out) const override {
    for (int32_t y = 0; y < Size(step); ++y) {
      const int32_t to = Peer(rank, step, y);
      if (to == rank) continue;
      RealBytes bytes = bytes_ / Size(step);
      if (!splits_.empty()) {
        bytes = RealBytes();
        std::vector<int32_t> sent;
        AppendBlocks(rank, step, y, sent);
        for (int32_t b : sent) bytes += RealBytes(Bytes(splits_[static_cast<size_t>(b)]));
      }
      out.push_back({to, bytes, false});
    }
  }
  int32_t Receives(int32_t, int32_t, int32_t step) const override { return Size(step) - 1; }
  // Exact for equal splits.
  RealSeconds ClosedForm(const AlphaBeta& net) const override {
    RealSeconds total;
    for (int32_t size : sizes_) {
      if (size > 1) total += net.alpha + bytes_ / size * (size - 1) / net.bandwidth;
    }
    return total;
  }
  int32_t blocks() const override { return n_ * n_; }
  void SentBlocks(int32_t rank, int32_t, int32_t step, int32_t k, int32_t,
                  std::vector<int32_t>& out) const override {
    const int32_t x = rank / strides_[static_cast<size_t>(step)] % Size(step);
    AppendBlocks(rank, step, k < x ? k : k + 1, out);
  }

 private:
  int32_t Size(int32_t dim) const { return sizes_[static_cast<size_t>(dim)]; }
  int32_t Peer(int32_t rank, int32_t dim, int32_t y) const {
    const int32_t stride = strides_[static_cast<size_t>(dim)];
    return rank + (y - rank / stride % Size(dim)) * stride;
  }
  // Before phase d a rank holds the blocks whose source agrees with it in coordinates d and up, and
  // whose destination agrees with it in those below d.
  void AppendBlocks(int32_t rank, int32_t dim, int32_t y, std::vector<int32_t>& out) const {
    const int32_t stride = strides_[static_cast<size_t>(dim)];
    const int32_t above = stride * Size(dim);
    const int32_t low = rank % stride;
    const int32_t high = rank / stride * stride;
    for (int32_t source_low = 0; source_low < stride; ++source_low) {
      for (int32_t target_high = 0; target_high < n_ / above; ++target_high) {
        out.push_back((high + source_low) * n_ + target_high * above + y * stride + low);
      }
    }
  }

  int32_t n_;
  RealBytes bytes_;
  std::vector<int32_t> sizes_;
  std::vector<int32_t> strides_;
  std::vector<int64_t> splits_;
};

}  // namespace

std::unique_ptr<CollectiveSchedule> MakeHierarchicalAllToAll(const CollectiveRequest& request) {
  return std::make_unique<HierarchicalAllToAll>(request);
}

}  // namespace foretrace
