#pragma once
// PyTorch's caching allocator for devices (c10/cuda/CUDACachingAllocator.cpp, defaults): what
// tensors of given sizes, allocated and freed in an order, take of a device.

#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "simulator/base/units.h"

namespace foretrace {

// Requests are rounded up to 512 bytes. Those of up to 1 MiB are cut out of segments of 2 MiB,
// those below 10 MiB out of segments of 20 MiB, larger ones have segments of their own, of whole 2
// MiB. The smallest free block that is large enough is taken; what is left of it stays free if it
// is larger than 1 MiB (of small segments: at least 512 bytes). Freed blocks join free neighbours
// of their segment; segments are kept. What happens when a device is full (segments are given back)
// is not modelled.
// Expandable (expandable_segments:True): small and large requests have one segment each, which
// grows at its end by what is missing there, in steps of 2 and 20 MiB; all that is left of a block
// of 512 bytes or more stays free.
class CachingAllocator {
 public:
  using Block = int32_t;

  explicit CachingAllocator(bool expandable = false) : expandable_(expandable) {}

  Block Allocate(Bytes size);  // of no bytes: none, which Free accepts
  void Free(Block block);

  Bytes allocated() const { return Bytes(allocated_); }
  Bytes peak_allocated() const { return Bytes(peak_); }
  Bytes reserved() const { return Bytes(reserved_); }

 private:
  static constexpr Block kNone = -1;
  struct Piece {
    int64_t size = 0;
    Block before = kNone, after = kNone;  // of the same segment
    bool small = false, free = false;
  };
  using Pool = std::set<std::pair<int64_t, Block>>;

  Block NewSegment(int64_t size, bool small);
  // A free block of `size` bytes at least at the end of the segment.
  Block Grow(int64_t size, bool small);
  void Split(Block block, int64_t size);
  void Join(Block into, Block from);
  Pool& PoolOf(bool small) { return small ? small_ : large_; }

  std::vector<Piece> pieces_;
  Pool small_, large_;  // free pieces by size
  bool expandable_ = false;
  Block small_end_ = kNone, large_end_ = kNone;  // last pieces of growing segments
  int64_t allocated_ = 0, peak_ = 0, reserved_ = 0;
};

}  // namespace foretrace
