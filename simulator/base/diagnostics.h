#pragma once
// What was wrong with an input but could be repaired. Each kind is counted and keeps its first
// example; --strict turns the first of each kind into an error.

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace foretrace {

class Diagnostics {
 public:
  struct Entry {
    int64_t count = 0;
    std::string first;  // file and node of the first occurrence
  };

  // `kind` is a short stable name such as "self_dependency"; `where` is built only by callers that
  // see a kind for the first time: ask IsNew() before composing an expensive one.
  void Add(std::string_view kind, std::string_view where, int64_t count = 1);
  bool IsNew(std::string_view kind) const { return !entries_.contains(kind); }
  void Merge(const Diagnostics& other);
  int64_t Count(std::string_view kind) const;
  bool empty() const { return entries_.empty(); }
  // Ordered by kind.
  const std::map<std::string, Entry, std::less<>>& entries() const { return entries_; }
  // OK when nothing was recorded, else an error that names the first of each kind.
  absl::Status AsStrictError() const;

 private:
  std::map<std::string, Entry, std::less<>> entries_;
};

}  // namespace foretrace
