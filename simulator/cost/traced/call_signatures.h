#pragma once
// Calls without shapes that did what calls with shapes did.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "simulator/trace/rank_trace.h"

namespace foretrace {

// Execution traces cover an iteration or a few, profiles many more, so that most calls of a linked
// trace have no shapes. A library picks its kernels and their grids by shape: where all calls of
// one name that have shapes and launched the same kernels (names and waves of blocks) had equal
// shapes, a call without that launched these kernels is taken to have them too.
class CallSignatures {
 public:
  explicit CallSignatures(const RankTrace& rank) : rank_(rank) {}

  // A call that has shapes.
  void Learn(NodeIndex call, std::span<const NodeIndex> kernels);
  // A learnt call that did the same; nullopt: none, or several with different shapes.
  std::optional<NodeIndex> Find(NodeIndex call, std::span<const NodeIndex> kernels) const;

 private:
  using Key = std::vector<uint32_t>;  // name; then name and waves of each kernel
  struct Known {
    NodeIndex call;
    bool ambiguous = false;
  };
  Key KeyOf(NodeIndex call, std::span<const NodeIndex> kernels) const;
  bool SameShapes(NodeIndex a, NodeIndex b) const;

  const RankTrace& rank_;
  absl::flat_hash_map<Key, Known> known_;
};

}  // namespace foretrace
