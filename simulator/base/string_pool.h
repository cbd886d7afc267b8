#pragma once
// Interned strings: equal strings have equal ids, so that later stages compare integers.

#include <cstddef>
#include <deque>
#include <string>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "simulator/base/ids.h"

namespace foretrace {

struct StringTag;
using StringId = Id<StringTag>;

// Not thread-safe while interning; reading is safe once interning has ended. The empty string
// always has id 0. Views stay valid as long as the pool lives, also across moves.
class StringPool {
 public:
  StringPool() { Intern(""); }
  StringPool(StringPool&&) = default;
  StringPool& operator=(StringPool&&) = default;
  StringPool(const StringPool&) = delete;
  StringPool& operator=(const StringPool&) = delete;

  StringId Intern(std::string_view text);
  // The id of `text` when it was interned before, else an invalid id.
  StringId Find(std::string_view text) const;
  std::string_view Get(StringId id) const;
  size_t size() const { return strings_.size(); }
  // Characters held.
  size_t bytes() const { return bytes_; }

 private:
  std::deque<std::string> strings_;
  absl::flat_hash_map<std::string_view, uint32_t> index_;
  size_t bytes_ = 0;
};

}  // namespace foretrace
