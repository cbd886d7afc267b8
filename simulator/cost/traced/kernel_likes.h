#pragma once
// Kernels of which no call with shapes is known, by what is known of kernels like them.

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "simulator/cost/operator/kernel_work.h"
#include "simulator/trace/rank_trace.h"

namespace foretrace {

// Profilers lose launches, and calls lie outside of what was recorded with shapes; the same kernels
// mostly run elsewhere in the recording with both. A kernel without is taken to be like those of
// its name and grid (waves of blocks) that have the same neighbours in their streams: up to four on
// either side, fewer where none has that many in common.
class KernelLikes {
 public:
  struct Like {
    SimTime time;
    KernelKind kind = KernelKind::kOther;
  };

  // Keeps no more than `unknown`, kernels of `rank`, need.
  KernelLikes(const RankTrace& rank, std::span<const NodeIndex> unknown);
  // What a model says of a kernel with shapes.
  void Learn(NodeIndex kernel, const Like& like);
  // The mean over the kernels most alike; nullopt: no other kernel has its name and grid.
  std::optional<Like> Find(NodeIndex kernel) const;

 private:
  static constexpr std::array<int32_t, 4> kNeighbours = {4, 2, 1, 0};
  using Key = std::vector<uint32_t>;  // likenesses of the neighbours and, in their midst, its own
  struct Sum {
    int64_t total_ps = 0, count = 0;
    KernelKind kind = KernelKind::kOther;
  };
  Key KeyOf(NodeIndex kernel, int32_t neighbours) const;

  std::vector<NodeIndex> order_;    // by stream, then by start
  std::vector<uint32_t> likeness_;  // by position in it: equal for equal names and grids
  std::vector<uint32_t> position_;  // by node
  std::array<absl::flat_hash_map<Key, Sum>, kNeighbours.size()> sums_;
};

}  // namespace foretrace
