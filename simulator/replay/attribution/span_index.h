#pragma once
// Which of nested stretches of a thread is innermost at a time.

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "simulator/base/time.h"

namespace foretrace {

struct NamedSpan {
  int64_t thread = 0;
  SimTime start;
  SimTime end;
  uint32_t name = 0;
};

// Spans of one thread nest or are disjoint; one that sticks out of the span around it ends there.
class SpanIndex {
 public:
  static constexpr uint32_t kNone = 0xffffffff;
  struct Entry {
    NamedSpan span;
    uint32_t parent = kNone;  // entry around it
  };

  explicit SpanIndex(std::vector<NamedSpan> spans);

  // Parents come before what they hold.
  std::span<const Entry> entries() const { return entries_; }
  // The innermost entry around `time` on `thread`; kNone.
  uint32_t At(int64_t thread, SimTime time) const;

 private:
  std::vector<Entry> entries_;                           // by thread, then start
  std::map<int64_t, std::pair<uint32_t, uint32_t>> of_;  // thread to its entries
};

}  // namespace foretrace
