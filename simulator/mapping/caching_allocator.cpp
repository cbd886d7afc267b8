#include "simulator/mapping/caching_allocator.h"

#include <algorithm>

namespace foretrace {
namespace {

constexpr int64_t kLeast = 512, kMiB = int64_t{1} << 20;
constexpr int64_t kSmallRequest = kMiB, kSmallSegment = 2 * kMiB;
constexpr int64_t kOwnSegment = 10 * kMiB, kLargeSegment = 20 * kMiB, kRound = 2 * kMiB;

int64_t RoundedUp(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

int64_t SegmentFor(int64_t size) {
  if (size <= kSmallRequest) return kSmallSegment;
  return size < kOwnSegment ? kLargeSegment : RoundedUp(size, kRound);
}

}  // namespace

CachingAllocator::Block CachingAllocator::Allocate(Bytes bytes) {
  if (bytes <= Bytes()) return kNone;
  const int64_t size = RoundedUp(bytes.count(), kLeast);
  const bool small = size <= kSmallRequest;
  Pool& pool = PoolOf(small);
  Block block = kNone;
  const auto found = pool.lower_bound({size, kNone});
  if (found != pool.end()) {
    block = found->second;
    pool.erase(found);
  } else {
    block = expandable_ ? Grow(size, small) : NewSegment(SegmentFor(size), small);
  }
  const int64_t left = pieces_[static_cast<size_t>(block)].size - size;
  if (small || expandable_ ? left >= kLeast : left > kSmallRequest) Split(block, size);
  Piece& piece = pieces_[static_cast<size_t>(block)];
  piece.free = false;
  allocated_ += piece.size;
  peak_ = std::max(peak_, allocated_);
  return block;
}

void CachingAllocator::Free(Block block) {
  if (block == kNone) return;
  Piece& piece = pieces_[static_cast<size_t>(block)];
  allocated_ -= piece.size;
  piece.free = true;
  const auto free = [&](Block other) {
    return other != kNone && pieces_[static_cast<size_t>(other)].free;
  };
  if (free(piece.after)) Join(block, piece.after);
  if (free(piece.before)) {
    const Block before = piece.before;
    Join(before, block);
    block = before;
  }
  const Piece& whole = pieces_[static_cast<size_t>(block)];
  PoolOf(whole.small).insert({whole.size, block});
}

CachingAllocator::Block CachingAllocator::NewSegment(int64_t size, bool small) {
  reserved_ += size;
  Piece piece;
  piece.size = size;
  piece.small = small;
  pieces_.push_back(piece);
  return static_cast<Block>(pieces_.size()) - 1;
}

CachingAllocator::Block CachingAllocator::Grow(int64_t size, bool small) {
  Block& end = small ? small_end_ : large_end_;
  const int64_t step = small ? kSmallSegment : kLargeSegment;
  const bool joins = end != kNone && pieces_[static_cast<size_t>(end)].free;
  const int64_t there = joins ? pieces_[static_cast<size_t>(end)].size : 0;
  const Block added = NewSegment(RoundedUp(size - there, step), small);
  if (joins) {
    Piece& last = pieces_[static_cast<size_t>(end)];
    PoolOf(small).erase({last.size, end});
    last.size += pieces_[static_cast<size_t>(added)].size;
    pieces_.pop_back();
    return end;
  }
  if (end != kNone) {
    pieces_[static_cast<size_t>(end)].after = added;
    pieces_[static_cast<size_t>(added)].before = end;
  }
  return end = added;
}

void CachingAllocator::Split(Block block, int64_t size) {
  const auto rest = static_cast<Block>(pieces_.size());
  Piece left = pieces_[static_cast<size_t>(block)];
  left.size -= size;
  left.before = block;
  left.free = true;
  if (left.after != kNone) pieces_[static_cast<size_t>(left.after)].before = rest;
  pieces_.push_back(left);
  pieces_[static_cast<size_t>(block)].size = size;
  pieces_[static_cast<size_t>(block)].after = rest;
  for (Block* end : {&small_end_, &large_end_}) {
    if (*end == block) *end = rest;
  }
  PoolOf(left.small).insert({left.size, rest});
}

// Both are free, `from` follows `into`; either may be in the pool.
void CachingAllocator::Join(Block into, Block from) {
  Piece &a = pieces_[static_cast<size_t>(into)], &b = pieces_[static_cast<size_t>(from)];
  PoolOf(a.small).erase({a.size, into});
  PoolOf(b.small).erase({b.size, from});
  a.size += b.size;
  a.after = b.after;
  if (b.after != kNone) pieces_[static_cast<size_t>(b.after)].before = into;
  for (Block* end : {&small_end_, &large_end_}) {
    if (*end == from) *end = into;
  }
  b.free = false;
}

}  // namespace foretrace
