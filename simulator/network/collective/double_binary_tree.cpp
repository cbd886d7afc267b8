// All-reduce over two binary trees, each carrying half of the data, pipelined over chunks (Sanders,
// Speck and Traeff, 2009; the shape is that of NCCL's trees). A rank that is inner in one tree is a
// leaf of the other.

#include <algorithm>

#include "simulator/network/collective/schedule.h"

namespace foretrace {
namespace {

struct Tree {
  std::vector<int32_t> parent;  // -1: root
  std::vector<std::vector<int32_t>> children;
  std::vector<int32_t> depth;
  int32_t height = 0;
};

// In-order tree: odd ranks are leaves, rank 0 is the root with one child.
int32_t InOrderParent(int32_t rank, int32_t n) {
  if (rank == 0) return -1;
  const int32_t bit = rank & -rank;
  const int32_t up = (rank ^ bit) | (bit << 1);
  return up < n ? up : rank ^ bit;
}

// `relabel` maps positions of the in-order tree to ranks.
template <typename Relabel>
Tree MakeTree(int32_t n, Relabel relabel) {
  Tree tree;
  const auto size = static_cast<size_t>(n);
  tree.parent.assign(size, -1);
  tree.children.resize(size);
  tree.depth.assign(size, 0);
  for (int32_t position = 0; position < n; ++position) {
    const int32_t up = InOrderParent(position, n);
    if (up < 0) continue;
    const int32_t rank = relabel(position);
    tree.parent[static_cast<size_t>(rank)] = relabel(up);
    tree.children[static_cast<size_t>(relabel(up))].push_back(rank);
  }
  for (size_t rank = 0; rank < size; ++rank) {
    int32_t depth = 0;
    for (int32_t at = tree.parent[rank]; at >= 0; at = tree.parent[static_cast<size_t>(at)]) {
      ++depth;
    }
    tree.depth[rank] = depth;
    tree.height = std::max(tree.height, depth);
  }
  return tree;
}

class DoubleBinaryTree : public CollectiveSchedule {
 public:
  explicit DoubleBinaryTree(const CollectiveRequest& r)
      : n_(r.ranks), chunks_(r.chunks), bytes_(r.bytes / (2.0 * r.chunks)), total_(r.bytes) {
    trees_[0] = MakeTree(n_, [](int32_t p) { return p; });
    trees_[1] = MakeTree(n_, [this](int32_t p) { return n_ % 2 == 0 ? n_ - 1 - p : (p + 1) % n_; });
    height_ = std::max(trees_[0].height, trees_[1].height);
  }

  int32_t ranks() const override { return n_; }
  int32_t lanes() const override { return 2 * chunks_; }
  int32_t lane_stride() const override { return 2; }
  bool serial() const override { return true; }
  // Reduce: depth d sends in step height - d. Broadcast: depth d sends in step height + d.
  int32_t steps() const override { return 2 * height_; }
  void Sends(int32_t rank, int32_t lane, int32_t step, std::vector<Send>& out) const override {
    const Tree& tree = trees_[lane % 2];
    const auto r = static_cast<size_t>(rank);
    if (step < height_) {
      if (tree.parent[r] >= 0 && step == height_ - tree.depth[r]) {
        out.push_back({tree.parent[r], bytes_, true});
      }
    } else if (step == height_ + tree.depth[r]) {
      for (int32_t child : tree.children[r]) out.push_back({child, bytes_, false});
    }
  }
  int32_t Receives(int32_t rank, int32_t lane, int32_t step) const override {
    const Tree& tree = trees_[lane % 2];
    const auto r = static_cast<size_t>(rank);
    if (step < height_) {
      return step == height_ - tree.depth[r] - 1 ? static_cast<int32_t>(tree.children[r].size())
                                                 : 0;
    }
    return tree.parent[r] >= 0 && step == height_ + tree.depth[r] - 1 ? 1 : 0;
  }
  int64_t flows() const override { return int64_t{2} * chunks_ * 2 * (n_ - 1); }
  // An estimate, exact for two ranks with one chunk: the way up and down, a chunk for each child on
  // every level, and ports that carry the data twice in all (once for two ranks).
  double ClosedForm(const AlphaBeta& net) const override {
    if (n_ == 1) return 0;
    const double children = n_ == 2 ? 1 : 2;
    return 2 * height_ * (net.alpha + children * bytes_ / net.bandwidth) +
           children * total_ / net.bandwidth * (chunks_ - 1) / chunks_;
  }
  int32_t blocks() const override { return 1; }
  void SentBlocks(int32_t, int32_t, int32_t, int32_t, std::vector<int32_t>& out) const override {
    out.push_back(0);
  }

 private:
  int32_t n_;
  int32_t chunks_;
  double bytes_;
  double total_;
  Tree trees_[2];
  int32_t height_ = 0;
};

}  // namespace

std::unique_ptr<CollectiveSchedule> MakeDoubleBinaryTree(const CollectiveRequest& request) {
  return std::make_unique<DoubleBinaryTree>(request);
}

}  // namespace foretrace
