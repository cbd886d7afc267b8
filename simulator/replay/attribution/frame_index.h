#pragma once
// Which stretch of a rank's Python code its work belongs to: modules, lines, ranges.

#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "simulator/importers/profile_extras.h"
#include "simulator/replay/attribution/span_index.h"
#include "simulator/trace/rank_trace.h"

namespace foretrace {

// What the rank's profile holds besides; null: nothing.
const ProfileExtras* ExtrasOf(const RankTrace& rank, std::span<const ProfileExtras> extras);

// Calls of modules, or of other Python functions, on the rank's clock; names are of `extras`.
std::vector<NamedSpan> FramesOf(const RankTrace& rank, const ProfileExtras& extras, bool modules);

// Stretches of a rank's threads, and what belongs to them: work that a call within one issued, and
// the backward work of a forward operator within one, by autograd's numbers.
class FrameIndex {
 public:
  // `extras` may be null.
  FrameIndex(const RankTrace& rank, std::vector<NamedSpan> spans, const ProfileExtras* extras);

  const SpanIndex& spans() const { return spans_; }
  // Backward operators, whose names are numbers of this index alone.
  const SpanIndex& backward() const { return backward_; }
  // Entry of spans() that a node belongs to; kNone.
  uint32_t EntryOf(NodeIndex n) const;
  // That of the last forward operator with the number of `op`, an entry of backward(), before it.
  uint32_t EntryOfBackward(const NamedSpan& op) const;

 private:
  void ReadAutograd(const ProfileExtras& extras);

  const RankTrace& rank_;
  SpanIndex spans_, backward_;
  std::vector<int64_t> sequence_;                           // by name of backward_
  std::map<std::pair<int64_t, SimTime>, int64_t> forward_;  // sequence and start to thread
};

}  // namespace foretrace
