#pragma once
// Blocks of keys and values of one engine: who holds which, and which prefixes are still there.
// Freed blocks keep what they hold until they are taken again, the longest free first
// (vLLM, "Automatic Prefix Caching").

#include <cstdint>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace foretrace::serve {

using BlockIndex = int32_t;

class KvCache {
 public:
  // With `keep_prefixes` false no block is found again.
  KvCache(int64_t blocks, bool keep_prefixes);

  int64_t blocks() const { return static_cast<int64_t>(states_.size()); }
  int64_t free_blocks() const { return free_count_; }
  int64_t used_blocks() const { return blocks() - free_count_; }
  bool keeps_prefixes() const { return keep_prefixes_; }

  // The block that holds what `key` stands for; -1: none.
  BlockIndex Find(uint64_t key) const;
  // Whether the block is held by nobody, so that taking it uses up a free one.
  bool IsFree(BlockIndex block) const { return Of(block).holders == 0; }

  // Holds a block that Find returned.
  void Share(BlockIndex block);
  // Holds a free block, whose content is lost: `evicted` is what it was found by, 0: by nothing.
  // There must be one.
  BlockIndex Take(uint64_t& evicted);
  // The block is full and holds what `key` stands for. Where another block does already, that one
  // stays the one that is found.
  void Remember(BlockIndex block, uint64_t key);
  // Gives blocks up, the last first, so that the beginnings of prefixes are kept longest.
  void Release(std::span<const BlockIndex> blocks);

 private:
  struct State {
    uint64_t key = 0;  // 0: not found by any
    int32_t holders = 0;
    BlockIndex before = -1, after = -1;  // in the list of free blocks
  };
  State& Of(BlockIndex block) { return states_[static_cast<size_t>(block)]; }
  const State& Of(BlockIndex block) const { return states_[static_cast<size_t>(block)]; }
  void Unlink(BlockIndex block);
  void Append(BlockIndex block);

  std::vector<State> states_;
  absl::flat_hash_map<uint64_t, BlockIndex> known_;
  BlockIndex first_ = -1, last_ = -1;  // free blocks, the next to be taken first
  int64_t free_count_ = 0;
  bool keep_prefixes_;
};

}  // namespace foretrace::serve
