// All-reduce, reduce-scatter and all-gather dimension by dimension (Cho et al., BlueConnect, 2019;
// ASTRA-sim's multi-dimensional collectives): rings within dimension 0, then 1, ..., and back. Each
// dimension moves only what the one before left. Chunks form a pipeline over the dimensions.

#include "simulator/network/collective/schedule.h"

namespace foretrace {
namespace {

class Hierarchical : public CollectiveSchedule {
 public:
  explicit Hierarchical(const CollectiveRequest& r)
      : n_(r.ranks),
        chunks_(r.chunks),
        bytes_(r.bytes / r.chunks),
        total_(r.bytes),
        sizes_(r.dimensions) {
    const auto dims = static_cast<int32_t>(sizes_.size());
    if (r.op != CollectiveOp::kAllGather) {
      for (int32_t d = 0; d < dims; ++d) AddPhase(d, true);
    }
    if (r.op != CollectiveOp::kReduceScatter) {
      for (int32_t d = dims; d-- > 0;) AddPhase(d, false);
    }
  }

  int32_t ranks() const override { return n_; }
  int32_t lanes() const override { return chunks_; }
  bool serial() const override { return true; }
  int32_t steps() const override { return static_cast<int32_t>(steps_.size()); }
  void Sends(int32_t rank, int32_t, int32_t step, std::vector<Send>& out) const override {
    const Step& s = steps_[static_cast<size_t>(step)];
    const int32_t stride = Stride(s.dim);
    const int32_t size = sizes_[static_cast<size_t>(s.dim)];
    const int32_t x = rank / stride % size;
    const int32_t to = x + 1 == size ? rank - x * stride : rank + stride;
    out.push_back({to, bytes_ / Divisor(s.dim), s.reduce});
  }
  int32_t Receives(int32_t, int32_t, int32_t) const override { return 1; }
  int32_t SameStep(int32_t step) const override {
    return steps_[static_cast<size_t>(step)].first_alike;
  }
  int64_t flows() const override { return int64_t{chunks_} * n_ * steps(); }
  // Exact for one chunk.
  RealSeconds ClosedForm(const AlphaBeta& net) const override {
    RealSeconds total;
    for (const Step& s : steps_) {
      total += net.alpha + total_ / Divisor(s.dim) / net.bandwidth;
    }
    return total;
  }
  int32_t blocks() const override { return n_; }
  // Blocks are numbered with coordinate 0 most significant, so that what a rank holds between
  // phases is one run of blocks.
  int32_t BlockOf(int32_t rank) const override {
    int32_t block = 0;
    for (int32_t size : sizes_) {
      block = block * size + rank % size;
      rank /= size;
    }
    return block;
  }
  void SentBlocks(int32_t rank, int32_t, int32_t step, int32_t, int32_t,
                  std::vector<int32_t>& out) const override {
    const Step& s = steps_[static_cast<size_t>(step)];
    const int32_t size = sizes_[static_cast<size_t>(s.dim)];
    int32_t prefix = 0;
    int32_t rest = rank;
    for (int32_t d = 0; d < s.dim; ++d) {
      prefix = prefix * sizes_[static_cast<size_t>(d)] + rest % sizes_[static_cast<size_t>(d)];
      rest /= sizes_[static_cast<size_t>(d)];
    }
    const int32_t x = rest % size;
    const int32_t which = ((s.reduce ? x - s.index - 1 : x - s.index) % size + size) % size;
    const int32_t run = n_ / Divisor(s.dim);
    for (int32_t b = 0; b < run; ++b) out.push_back((prefix * size + which) * run + b);
  }

 private:
  struct Step {
    int32_t dim;
    int32_t index;  // within the phase
    bool reduce;
    int32_t first_alike;
  };
  void AddPhase(int32_t dim, bool reduce) {
    int32_t first = steps();
    for (int32_t s = 0; s < steps(); ++s) {
      if (steps_[static_cast<size_t>(s)].dim == dim) {
        first = s;
        break;
      }
    }
    for (int32_t k = 0; k + 1 < sizes_[static_cast<size_t>(dim)]; ++k) {
      steps_.push_back({dim, k, reduce, first});
    }
  }
  int32_t Stride(int32_t dim) const {
    int32_t stride = 1;
    for (int32_t d = 0; d < dim; ++d) stride *= sizes_[static_cast<size_t>(d)];
    return stride;
  }
  int32_t Divisor(int32_t dim) const { return Stride(dim + 1); }

  int32_t n_;
  int32_t chunks_;
  RealBytes bytes_;
  RealBytes total_;
  std::vector<int32_t> sizes_;
  std::vector<Step> steps_;
};

}  // namespace

std::unique_ptr<CollectiveSchedule> MakeHierarchical(const CollectiveRequest& request) {
  return std::make_unique<Hierarchical>(request);
}

}  // namespace foretrace
