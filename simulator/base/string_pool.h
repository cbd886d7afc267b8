#pragma once
// Interned strings: equal strings have equal ids, so that later stages compare integers.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "simulator/base/ids.h"

namespace foretrace {

struct StringTag;
using StringId = Id<StringTag>;

// Not thread-safe while interning; reading is safe once interning has ended. The empty string
// always has id 0. Views stay valid as long as the pool lives, also across moves. Characters lie
// one string after another in large blocks: a trace has a name a node.
class StringPool {
 public:
  StringPool() { Intern(""); }
  StringPool(StringPool&&) = default;
  StringPool& operator=(StringPool&&) = default;
  StringPool(const StringPool&) = delete;
  StringPool& operator=(const StringPool&) = delete;

  StringId Intern(std::string_view text);
  // Interns the strings of `other` in its order; what became of each, by its id there.
  std::vector<StringId> InternAll(const StringPool& other);
  // The id of `text` when it was interned before, else an invalid id.
  StringId Find(std::string_view text) const;
  std::string_view Get(StringId id) const;
  size_t size() const { return entries_.size(); }
  // Frees what only interning needs; it grows again when a string is interned.
  void ReleaseSlack();
  // Heap bytes held.
  size_t bytes() const;

 private:
  struct Entry {
    const char* text = nullptr;
    uint32_t size = 0;
    uint32_t hash = 0;
  };
  StringId InternHashed(std::string_view text, uint32_t hash);
  // Where in slots_ the text is, or would go.
  size_t SlotOf(std::string_view text, uint32_t hash) const;
  void Rehash(size_t slots);
  const char* Keep(std::string_view text);

  std::vector<Entry> entries_;
  std::vector<uint32_t> slots_;  // ids, by hash, with linear probing; a power of two of them
  std::vector<std::unique_ptr<char[]>> blocks_;
  char* free_ = nullptr;  // in the last block
  size_t free_bytes_ = 0;
  size_t block_bytes_ = 0;
};

}  // namespace foretrace
