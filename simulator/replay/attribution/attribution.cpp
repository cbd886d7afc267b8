#include "simulator/replay/attribution/attribution.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/replay/attribution/frame_index.h"
#include "simulator/report/classify.h"
#include "simulator/report/overlap.h"

namespace foretrace {
namespace {

constexpr int32_t kOutside = -1, kUnlaunched = -2;

class RowTree {
 public:
  int32_t Row(int32_t parent, std::string_view name) {
    const auto [it, added] = index_.try_emplace({parent, std::string(name)}, rows_.size());
    if (added) {
      AttributedRow row;
      row.name = std::string(name);
      row.parent = parent;
      row.depth = parent < 0 ? 0 : rows_[static_cast<size_t>(parent)].depth + 1;
      rows_.push_back(std::move(row));
    }
    return static_cast<int32_t>(it->second);
  }
  SpentTime& At(int32_t row) {
    if (row == kUnlaunched) return unlaunched;
    return row == kOutside ? outside : rows_[static_cast<size_t>(row)].own;
  }
  void Count(int32_t row) {
    if (row >= 0) ++rows_[static_cast<size_t>(row)].count;
  }
  // With totals; parents before children, siblings by time.
  std::vector<AttributedRow> Ordered() &&;

  SpentTime outside, unlaunched;

 private:
  std::vector<AttributedRow> rows_;  // parents come first
  std::map<std::pair<int32_t, std::string>, size_t> index_;
};

std::vector<AttributedRow> RowTree::Ordered() && {
  for (AttributedRow& row : rows_) row.total = row.own;
  for (size_t i = rows_.size(); i-- > 0;) {
    if (rows_[i].parent >= 0) rows_[static_cast<size_t>(rows_[i].parent)].total += rows_[i].total;
  }
  std::vector<std::vector<size_t>> children(rows_.size() + 1);
  for (size_t i = 0; i < rows_.size(); ++i) {
    children[static_cast<size_t>(rows_[i].parent + 1)].push_back(i);
  }
  for (std::vector<size_t>& list : children) {
    std::stable_sort(list.begin(), list.end(), [this](size_t a, size_t b) {
      const SpentTime &x = rows_[a].total, &y = rows_[b].total;
      return x.device != y.device ? x.device > y.device : x.cpu > y.cpu;
    });
  }
  std::vector<AttributedRow> ordered;
  std::vector<std::pair<size_t, int32_t>> open;  // row, and its parent in `ordered`
  const auto push = [&](const std::vector<size_t>& list, int32_t parent) {
    for (size_t i = list.size(); i-- > 0;) open.emplace_back(list[i], parent);
  };
  push(children[0], -1);
  while (!open.empty()) {
    const auto [row, parent] = open.back();
    open.pop_back();
    const auto place = static_cast<int32_t>(ordered.size());
    ordered.push_back(std::move(rows_[row]));
    ordered.back().parent = parent;
    push(children[row + 1], place);
  }
  return ordered;
}

// Where the nodes of one rank belong: spans of its threads, or names of its nodes.
class RankRows {
 public:
  RankRows(AttributeTo to, const AttributionInput& input, RankIndex r, const Classifier& classifier,
           RowTree& tree)
      : to_(to),
        input_(input),
        store_(input.table->store()),
        rank_(store_.ranks()[r]),
        r_(r),
        classifier_(classifier),
        tree_(tree) {
    if (!IsTree()) return;
    std::vector<NamedSpan> spans = to == AttributeTo::kRange ? Ranges() : Frames();
    found_ = spans.size();
    frames_.emplace(rank_, std::move(spans), ExtrasOf(rank_, input.extras));
    for (const SpanIndex::Entry& entry : frames_->spans().entries()) {
      const int32_t parent = entry.parent == SpanIndex::kNone ? kOutside : rows_[entry.parent];
      rows_.push_back(tree_.Row(parent, names_[entry.span.name]));
    }
  }

  bool IsTree() const {
    return to_ == AttributeTo::kModule || to_ == AttributeTo::kLine || to_ == AttributeTo::kRange;
  }
  size_t found() const { return found_; }

  int32_t RowOf(NodeIndex n) {
    switch (to_) {
      case AttributeTo::kKernel:
        return IsDeviceKind(rank_.kind(n)) ? tree_.Row(kOutside, store_.name(rank_, n)) : kOutside;
      case AttributeTo::kStream: {
        const Lane& lane = rank_.lane_at(rank_.lane(n));
        return tree_.Row(kOutside, fmt::format("rank {} {}", rank_.info().rank, lane.label));
      }
      case AttributeTo::kOp: {
        const NodeIndex op = classifier_.FrameworkOp(r_, n);
        return op.valid() ? tree_.Row(kOutside, store_.name(rank_, op)) : kOutside;
      }
      default:
        if (IsDeviceKind(rank_.kind(n)) && !rank_.launcher(n).valid() && !rank_.parent(n).valid()) {
          return kUnlaunched;
        }
        return RowOfEntry(frames_->EntryOf(n));
    }
  }

  // CPU time of spans within the window, each without those within it.
  void AddCpu(const IterationWindow& window) {
    if (!IsTree()) return;
    const SpanIndex& spans = frames_->spans();
    const auto entries = spans.entries();
    for (size_t i = 0; i < entries.size(); ++i) {
      const SimTime length = Within(window, entries[i].span);
      if (length == SimTime()) continue;
      tree_.Count(rows_[i]);
      tree_.At(rows_[i]).cpu += length;
      if (entries[i].parent != SpanIndex::kNone) tree_.At(rows_[entries[i].parent]).cpu -= length;
    }
    for (const SpanIndex::Entry& entry : frames_->backward().entries()) {
      if (entry.parent != SpanIndex::kNone) continue;
      if (spans.At(entry.span.thread, entry.span.start) != SpanIndex::kNone) continue;
      tree_.At(RowOfEntry(frames_->EntryOfBackward(entry.span))).cpu += Within(window, entry.span);
    }
  }

 private:
  SimTime Within(const IterationWindow& window, const NamedSpan& span) const {
    return Overlap(window, input_.prediction->PredictedCpuTime(r_, span.start),
                   input_.prediction->PredictedCpuTime(r_, span.end));
  }

  std::vector<NamedSpan> Frames() {
    const ProfileExtras* extras = ExtrasOf(rank_, input_.extras);
    if (extras == nullptr) return {};
    names_ = extras->names;
    return FramesOf(rank_, *extras, to_ == AttributeTo::kModule);
  }

  std::vector<NamedSpan> Ranges() {
    std::vector<NamedSpan> spans;
    for (uint32_t i = 0; i < rank_.size(); ++i) {
      const NodeIndex n(i);
      if (rank_.kind(n) != NodeKind::kAnnotation || !rank_.has_duration(n)) continue;
      const auto is_mark = [n](const IterationMark& mark) { return mark.node == n; };
      if (std::ranges::any_of(rank_.iterations(), is_mark)) continue;
      spans.push_back({rank_.lane_at(rank_.lane(n)).id, rank_.start(n), rank_.end(n),
                       static_cast<uint32_t>(names_.size())});
      names_.emplace_back(store_.name(rank_, n));
    }
    return spans;
  }

  int32_t RowOfEntry(uint32_t entry) const {
    return entry == SpanIndex::kNone ? kOutside : rows_[entry];
  }

  const AttributeTo to_;
  const AttributionInput& input_;
  const TraceStore& store_;
  const RankTrace& rank_;
  const RankIndex r_;
  const Classifier& classifier_;
  RowTree& tree_;
  size_t found_ = 0;
  std::vector<std::string> names_;
  std::optional<FrameIndex> frames_;
  std::vector<int32_t> rows_;  // by entry of frames_
};

SimTime WaitOf(const EventTable& table, const ExecutedNode& e) {
  if (e.end_cause == WaitCause::kNone) return {};
  const ExecutedNode* awaited = table.Find(e.end_binding);
  const SimTime until = awaited != nullptr ? std::clamp(awaited->end, e.start, e.end) : e.end;
  return until - e.start;
}

// Adds what the rank's executed nodes do within the window; returns its device time.
SimTime AddEvents(const AttributionInput& input, RankIndex r, RankRows& rows, RowTree& tree) {
  const EventTable& table = *input.table;
  const RankTrace& rank = table.store().ranks()[r];
  SimTime device;
  for (const ExecutedNode& e : table.events(r)) {
    const NodeKind kind = rank.kind(e.node);
    const IterationWindow& window = IsDeviceKind(kind) ? input.windows[r] : input.marks[r];
    if (Overlap(window, e.start, e.end) == SimTime()) continue;
    const int32_t row = rows.RowOf(e.node);
    SpentTime& spent = tree.At(row);
    if (!IsDeviceKind(kind)) {
      spent.waiting += WaitOf(table, e);
      continue;
    }
    if (!rows.IsTree()) tree.Count(row);
    const SimTime active = Overlap(window, e.active_start, e.end);
    spent.device += active;
    device += active;
    if (IsCommunicationKind(kind)) spent.waiting += Overlap(window, e.start, e.active_start);
  }
  for (const ExposedPart& part : ExposedParts(table, r, input.windows[r])) {
    tree.At(rows.RowOf(part.node)).exposed_communication += part.time;
  }
  return device;
}

absl::Status NothingOf(AttributeTo to, const AttributionInput& input) {
  const std::string& source = input.table->store().ranks().front().info().source;
  switch (to) {
    case AttributeTo::kModule:
      return Infeasible(
          "{}: no modules are recorded; record with profile(with_stack=True, with_modules=True), "
          "or use --by range, op or kernel",
          source);
    case AttributeTo::kLine:
      return Infeasible(
          "{}: no Python frames are recorded; record with profile(with_stack=True), or use --by "
          "op or kernel",
          source);
    default:
      return Infeasible(
          "{}: no ranges are recorded; mark them with torch.profiler.record_function(\"name\") or "
          "torch.cuda.nvtx.range(\"name\"), or use --by op or kernel",
          source);
  }
}

}  // namespace

SpentTime& SpentTime::operator+=(const SpentTime& other) {
  cpu += other.cpu;
  device += other.device;
  exposed_communication += other.exposed_communication;
  waiting += other.waiting;
  critical_path += other.critical_path;
  return *this;
}

double Attribution::attributed_share() const {
  return 1 - Share(outside.device, device - unlaunched.device);
}

absl::StatusOr<Attribution> Attribute(AttributeTo to, const AttributionInput& input) {
  const EventTable& table = *input.table;
  const Classifier classifier(table.store());
  Attribution out;
  out.to = to;
  out.window = input.window;
  RowTree tree;
  std::vector<RankRows> ranks;
  ranks.reserve(table.rank_count());
  size_t found = 0;
  for (RankIndex r = 0; r < table.rank_count(); ++r) {
    RankRows& rows = ranks.emplace_back(to, input, r, classifier, tree);
    found += rows.found();
    rows.AddCpu(input.marks[r]);
    out.device += AddEvents(input, r, rows, tree);
  }
  if (ranks.front().IsTree() && found == 0) return NothingOf(to, input);
  for (const PathSegment& segment : input.path->segments) {
    const int32_t row = segment.node.valid() ? ranks[segment.rank].RowOf(segment.node) : kOutside;
    tree.At(row).critical_path += segment.end - segment.start;
  }
  out.step = input.path->total;
  out.outside = tree.outside;
  out.unlaunched = tree.unlaunched;
  out.rows = std::move(tree).Ordered();
  return out;
}

}  // namespace foretrace
