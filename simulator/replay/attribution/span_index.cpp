#include "simulator/replay/attribution/span_index.h"

#include <algorithm>

namespace foretrace {

SpanIndex::SpanIndex(std::vector<NamedSpan> spans) {
  std::stable_sort(spans.begin(), spans.end(), [](const NamedSpan& a, const NamedSpan& b) {
    if (a.thread != b.thread) return a.thread < b.thread;
    return a.start != b.start ? a.start < b.start : a.end > b.end;
  });
  std::vector<uint32_t> open;
  for (const NamedSpan& span : spans) {
    const auto index = static_cast<uint32_t>(entries_.size());
    const auto [of, first] = of_.try_emplace(span.thread, index, index);
    if (first) open.clear();
    of->second.second = index + 1;
    while (!open.empty() && entries_[open.back()].span.end <= span.start) open.pop_back();
    Entry entry{span, open.empty() ? kNone : open.back()};
    if (!open.empty()) entry.span.end = std::min(span.end, entries_[open.back()].span.end);
    entries_.push_back(entry);
    open.push_back(index);
  }
}

uint32_t SpanIndex::At(int64_t thread, SimTime time) const {
  const auto of = of_.find(thread);
  if (of == of_.end()) return kNone;
  const auto begin = entries_.begin() + of->second.first,
             end = entries_.begin() + of->second.second;
  const auto after = std::upper_bound(
      begin, end, time, [](SimTime t, const Entry& entry) { return t < entry.span.start; });
  if (after == begin) return kNone;
  uint32_t at = static_cast<uint32_t>(after - entries_.begin()) - 1;
  while (at != kNone && entries_[at].span.end <= time) at = entries_[at].parent;
  return at;
}

}  // namespace foretrace
