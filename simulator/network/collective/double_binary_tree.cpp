// All-reduce over two binary trees, each carrying half of the data (Sanders, Speck and Traeff,
// 2009), in the shape of NCCL's: a chain within each node, binary trees over the chains' heads. A
// node that is inner in one tree is a leaf of the other. On one node a chain alone is left. Every
// ring order brings its own trees, so that together they use all NICs.
//
// Two pipelines, first up and then down: a channel's threads do one or the other, so that together
// they take as long as one after the other. In each all edges stream at once, and the last piece
// then goes hop by hop.

#include <algorithm>
#include <iterator>

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

// `chains` are the ranks of each node, head first; `relabel` maps positions of the in-order tree to
// chains.
template <typename Relabel>
Tree MakeTree(int32_t ranks, const std::vector<std::vector<int32_t>>& chains, Relabel relabel) {
  Tree tree;
  const auto size = static_cast<size_t>(ranks);
  tree.parent.assign(size, -1);
  tree.children.resize(size);
  tree.depth.assign(size, -1);
  const auto join = [&](int32_t parent, int32_t child) {
    tree.parent[static_cast<size_t>(child)] = parent;
    tree.children[static_cast<size_t>(parent)].push_back(child);
  };
  const auto n = static_cast<int32_t>(chains.size());
  std::vector<int32_t> open;
  for (int32_t position = 0; position < n; ++position) {
    const auto& chain = chains[static_cast<size_t>(relabel(position))];
    const int32_t up = InOrderParent(position, n);
    if (up >= 0) {
      join(chains[static_cast<size_t>(relabel(up))].front(), chain.front());
    } else {
      tree.depth[static_cast<size_t>(chain.front())] = 0;
      open.push_back(chain.front());
    }
    for (size_t i = 1; i < chain.size(); ++i) join(chain[i - 1], chain[i]);
  }
  while (!open.empty()) {
    const auto rank = static_cast<size_t>(open.back());
    open.pop_back();
    tree.height = std::max(tree.height, tree.depth[rank]);
    for (int32_t child : tree.children[rank]) {
      tree.depth[static_cast<size_t>(child)] = tree.depth[rank] + 1;
      open.push_back(child);
    }
  }
  return tree;
}

// Runs of ranks on one node, in the order given.
std::vector<std::vector<int32_t>> Chains(const std::vector<int32_t>& order,
                                         const std::vector<int32_t>& nodes) {
  std::vector<std::vector<int32_t>> chains;
  int32_t last = -1;
  for (int32_t rank : order) {
    const int32_t node = nodes.empty() ? rank : nodes[static_cast<size_t>(rank)];
    if (chains.empty() || node != last) chains.emplace_back();
    last = node;
    chains.back().push_back(rank);
  }
  return chains;
}

class DoubleBinaryTree : public CollectiveSchedule {
 public:
  explicit DoubleBinaryTree(const CollectiveRequest& r) : n_(r.ranks), total_(r.bytes) {
    for (const auto& order : OrdersOf(r)) {
      const auto chains = Chains(order, r.nodes);
      const auto c = static_cast<int32_t>(chains.size());
      trees_.push_back(MakeTree(n_, chains, [](int32_t p) { return p; }));
      if (c == 1) continue;
      trees_.push_back(
          MakeTree(n_, chains, [c](int32_t p) { return c % 2 == 0 ? c - 1 - p : (p + 1) % c; }));
    }
    for (const Tree& tree : trees_) height_ = std::max(height_, tree.height);
    bytes_ = r.bytes / lanes();
    piece_ = bytes_ * PieceShare(r);
    for (const Tree& tree : trees_) {
      int64_t leaves = 0;
      for (int32_t rank = 0; rank < n_; ++rank) leaves += Leaf(tree, rank) ? 1 : 0;
      // Streams: every edge either way, or only leaves' up and the root's down. Pieces: up all
      // edges but leaves', down all but the root's.
      const auto top =
          static_cast<int64_t>(std::ranges::count(tree.depth, 1));  // the root's children
      if (n_ == 1) continue;
      flows_ += Rest() ? 2 * (n_ - 1) : leaves + top;
      flows_ += (n_ - 1 - leaves) + (n_ - 1 - top);
    }
  }

  int32_t ranks() const override { return n_; }
  int32_t lanes() const override { return static_cast<int32_t>(trees_.size()); }
  // Step 0 streams up, everything from leaves, else all but the piece. Then depth d sends the piece
  // up in step height - d. Step `height` streams down, everything from the root; then depth d sends
  // the piece down in step height + d.
  int32_t steps() const override { return n_ == 1 ? 0 : 2 * height_; }
  void Sends(int32_t rank, int32_t lane, int32_t step, std::vector<Send>& out) const override {
    const Tree& tree = trees_[static_cast<size_t>(lane)];
    const auto r = static_cast<size_t>(rank);
    const bool root = tree.parent[r] < 0;
    if (step < height_) {
      const auto bytes = UpBytes(tree, rank, step);
      if (!root && bytes) out.push_back({tree.parent[r], *bytes, true});
      return;
    }
    const auto bytes = DownBytes(tree, rank, step);
    if (!bytes) return;
    for (int32_t child : tree.children[r]) out.push_back({child, *bytes, false});
  }
  int32_t Receives(int32_t rank, int32_t lane, int32_t step) const override {
    const Tree& tree = trees_[static_cast<size_t>(lane)];
    const auto r = static_cast<size_t>(rank);
    if (step >= height_) {
      return tree.parent[r] >= 0 && DownBytes(tree, tree.parent[r], step) ? 1 : 0;
    }
    if (step > 0 && step != height_ - tree.depth[r] - 1) return 0;
    int32_t up = 0;
    for (int32_t child : tree.children[r]) up += UpBytes(tree, child, step) ? 1 : 0;
    return up;
  }
  int32_t NextStep(int32_t rank, int32_t lane, int32_t step) const override {
    if (step == 0) return 0;
    const int32_t d = trees_[static_cast<size_t>(lane)].depth[static_cast<size_t>(rank)];
    for (int32_t due : {height_ - d - 1, height_ - d, height_, height_ + d - 1, height_ + d}) {
      if (due >= step) return std::min(due, steps());
    }
    return steps();
  }
  int64_t flows() const override { return flows_; }
  // An estimate, exact for two ranks with one piece: the piece up and down, and a port of an inner
  // rank carries the data twice (once for two ranks).
  RealSeconds ClosedForm(const AlphaBeta& net) const override {
    if (n_ == 1) return {};
    const double children = n_ == 2 ? 1 : 2;
    const double rest = bytes_ > RealBytes() ? 1 - piece_ / bytes_ : 0;
    return 2 * height_ * net.alpha +
           children * (2 * height_ * piece_ + total_ * rest) / net.bandwidth;
  }
  int32_t blocks() const override { return Rest() ? 2 : 1; }
  int32_t rounds(int32_t, int32_t step) const override {
    return step == 0 || step == height_ ? height_ : 1;
  }
  void SentBlocks(int32_t rank, int32_t lane, int32_t step, int32_t, int32_t round,
                  std::vector<int32_t>& out) const override {
    const Tree& tree = trees_[static_cast<size_t>(lane)];
    const int32_t d = tree.depth[static_cast<size_t>(rank)];
    if (step != 0 && step != height_) {
      out.push_back(0);
    } else if (round == (step == 0 ? height_ - d : d)) {
      if (step == 0 ? Leaf(tree, rank) : d == 0) out.push_back(0);
      if (Rest()) out.push_back(1);
    }
  }

 private:
  static bool Leaf(const Tree& tree, int32_t rank) {
    return tree.children[static_cast<size_t>(rank)].empty();
  }
  // What a rank sends up in a step below height, or to each child from there on; nullopt: nothing.
  std::optional<RealBytes> UpBytes(const Tree& tree, int32_t rank, int32_t step) const {
    const bool leaf = Leaf(tree, rank);
    if (step > 0) return BytesIf(!leaf && step == height_ - Depth(tree, rank), piece_);
    return leaf ? bytes_ : BytesIf(Rest(), bytes_ - piece_);
  }
  std::optional<RealBytes> DownBytes(const Tree& tree, int32_t rank, int32_t step) const {
    const int32_t d = Depth(tree, rank);
    if (step > height_) return BytesIf(d > 0 && step == height_ + d, piece_);
    return d == 0 ? bytes_ : BytesIf(Rest(), bytes_ - piece_);
  }
  static std::optional<RealBytes> BytesIf(bool sent, RealBytes bytes) {
    return sent ? std::optional(bytes) : std::nullopt;
  }
  static int32_t Depth(const Tree& tree, int32_t rank) {
    return tree.depth[static_cast<size_t>(rank)];
  }
  // Something is left to stream beside the piece.
  bool Rest() const { return bytes_ > piece_; }

  int32_t n_;
  RealBytes total_;
  RealBytes bytes_;  // of a tree
  RealBytes piece_;  // of it
  std::vector<Tree> trees_;
  int32_t height_ = 0;
  int64_t flows_ = 0;
};

}  // namespace

std::unique_ptr<CollectiveSchedule> MakeDoubleBinaryTree(const CollectiveRequest& request) {
  return std::make_unique<DoubleBinaryTree>(request);
}

}  // namespace foretrace
