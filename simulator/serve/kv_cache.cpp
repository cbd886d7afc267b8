#include "simulator/serve/kv_cache.h"

#include "simulator/base/check.h"

namespace foretrace::serve {

KvCache::KvCache(int64_t blocks, bool keep_prefixes)
    : states_(static_cast<size_t>(blocks)), keep_prefixes_(keep_prefixes) {
  for (int64_t b = 0; b < blocks; ++b) Append(static_cast<BlockIndex>(b));
}

BlockIndex KvCache::Find(uint64_t key) const {
  const auto it = known_.find(key);
  return it == known_.end() ? -1 : it->second;
}

void KvCache::Share(BlockIndex block) {
  if (Of(block).holders == 0) Unlink(block);
  ++Of(block).holders;
}

BlockIndex KvCache::Take(uint64_t& evicted) {
  FORETRACE_CHECK(first_ >= 0);
  const BlockIndex block = first_;
  Unlink(block);
  State& state = Of(block);
  evicted = state.key;
  if (state.key != 0) known_.erase(state.key);
  state.key = 0;
  state.holders = 1;
  return block;
}

void KvCache::Remember(BlockIndex block, uint64_t key) {
  if (!keep_prefixes_ || Of(block).key != 0) return;
  if (known_.emplace(key, block).second) Of(block).key = key;
}

void KvCache::Release(std::span<const BlockIndex> blocks) {
  for (size_t i = blocks.size(); i-- > 0;) {
    State& state = Of(blocks[i]);
    FORETRACE_CHECK(state.holders > 0);
    if (--state.holders == 0) Append(blocks[i]);
  }
}

void KvCache::Unlink(BlockIndex block) {
  State& state = Of(block);
  (state.before >= 0 ? Of(state.before).after : first_) = state.after;
  (state.after >= 0 ? Of(state.after).before : last_) = state.before;
  state.before = state.after = -1;
  --free_count_;
}

void KvCache::Append(BlockIndex block) {
  State& state = Of(block);
  state.before = last_;
  state.after = -1;
  (last_ >= 0 ? Of(last_).after : first_) = block;
  last_ = block;
  ++free_count_;
}

}  // namespace foretrace::serve
