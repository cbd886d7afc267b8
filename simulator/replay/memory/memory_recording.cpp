#include "simulator/replay/memory/memory_recording.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"

namespace foretrace {

std::string_view Name(MemoryPhase phase) {
  switch (phase) {
    case MemoryPhase::kBefore:
      return "before the recording";
    case MemoryPhase::kForward:
      return "forward";
    case MemoryPhase::kBackward:
      return "backward";
    case MemoryPhase::kOptimizer:
      return "optimizer";
    case MemoryPhase::kCount:
      break;
  }
  return "";
}

MemoryRecording::MemoryRecording(const TraceStore& store, const RankTrace& rank,
                                 const ProfileExtras& extras)
    : store_(store),
      rank_(rank),
      extras_(extras),
      ops_(Ops()),
      modules_(Modules()),
      backward_(Backward()) {
  for (const Event& m : extras.memory) {
    if (!m.on_device) continue;
    events_.push_back(&m);
    totals_ |= m.allocated > 0;
    paired_ |= m.address != 0;
  }
  std::stable_sort(events_.begin(), events_.end(),
                   [](const auto* a, const auto* b) { return a->at_ns < b->at_ns; });
  for (const SpanIndex::Entry& e : backward_.entries()) {
    SimTime& end = backward_end_.try_emplace(rank_.iteration_at(e.span.start)).first->second;
    end = std::max(end, e.span.end);
  }
  optimizes_ = std::ranges::any_of(ops_.entries(), [this](const SpanIndex::Entry& e) {
    return store_.name(rank_, NodeIndex(e.span.name)).starts_with("Optimizer.step");
  });
}

SpanIndex MemoryRecording::Ops() const {
  std::vector<NamedSpan> spans;
  for (uint32_t i = 0; i < rank_.size(); ++i) {
    const NodeIndex n(i);
    const bool range = rank_.kind(n) == NodeKind::kCpuOp || rank_.kind(n) == NodeKind::kAnnotation;
    if (!range || !rank_.has_duration(n)) continue;
    spans.push_back({rank_.lane_at(rank_.lane(n)).id, rank_.start(n), rank_.end(n), i});
  }
  return SpanIndex(std::move(spans));
}

SpanIndex MemoryRecording::Modules() const {
  std::vector<NamedSpan> spans;
  for (const ProfileExtras::Frame& f : extras_.frames) {
    if (!f.module) continue;
    spans.push_back({f.at.thread, Relative(f.at.start_ns), Relative(f.at.end_ns), f.name});
  }
  return SpanIndex(std::move(spans));
}

SpanIndex MemoryRecording::Backward() const {
  std::vector<NamedSpan> spans;
  for (const ProfileExtras::Autograd& op : extras_.autograd) {
    if (!op.backward) continue;
    spans.push_back({op.at.thread, Relative(op.at.start_ns), Relative(op.at.end_ns), 0});
  }
  return SpanIndex(std::move(spans));
}

std::vector<MemoryBlock> MemoryRecording::Blocks() const {
  std::vector<MemoryBlock> blocks;
  absl::flat_hash_map<int64_t, size_t> alive;
  for (int64_t i = 0; i < static_cast<int64_t>(events_.size()); ++i) {
    const Event& m = *events_[static_cast<size_t>(i)];
    if (m.bytes > 0) {
      alive[m.address] = blocks.size();
      blocks.push_back({i, MemoryBlock::kNever, m.bytes});
    } else if (const auto known = alive.find(m.address); known != alive.end()) {
      blocks[known->second].until = i;
      alive.erase(known);
    } else {
      blocks.push_back({-1, i, -m.bytes});
    }
  }
  return blocks;
}

MemoryPhase MemoryRecording::PhaseOf(const Event& m) const {
  if (backward_.At(m.thread, TimeOf(m)) != SpanIndex::kNone) return MemoryPhase::kBackward;
  return Within(m, "Optimizer.step") ? MemoryPhase::kOptimizer : MemoryPhase::kForward;
}

bool MemoryRecording::Within(const Event& m, std::string_view prefix) const {
  for (uint32_t e = ops_.At(m.thread, TimeOf(m)); e != SpanIndex::kNone;
       e = ops_.entries()[e].parent) {
    const NodeIndex node(ops_.entries()[e].span.name);
    if (store_.name(rank_, node).starts_with(prefix)) return true;
  }
  return false;
}

std::string MemoryRecording::OpOf(const Event& m) const {
  const uint32_t e = ops_.At(m.thread, TimeOf(m));
  if (e == SpanIndex::kNone) return "";
  return std::string(store_.name(rank_, NodeIndex(ops_.entries()[e].span.name)));
}

std::string MemoryRecording::ModuleOf(const Event& m) const {
  std::string path;
  for (const Call& call : CallsAround(m)) {
    if (!call.module) break;
    path += path.empty() ? "" : ".";
    path += call.name;
  }
  return path;
}

std::optional<SimTime> MemoryRecording::EndOfBackward(const Event& m) const {
  const auto end = backward_end_.find(rank_.iteration_at(TimeOf(m)));
  if (end == backward_end_.end()) return std::nullopt;
  return end->second;
}

std::vector<MemoryRecording::Call> MemoryRecording::CallsAround(const Event& m) const {
  std::vector<Call> calls;
  const SimTime at = TimeOf(m);
  for (uint32_t e = modules_.At(m.thread, at); e != SpanIndex::kNone;
       e = modules_.entries()[e].parent) {
    const NamedSpan& span = modules_.entries()[e].span;
    calls.push_back({extras_.names[span.name], span.end, e, true});
  }
  std::ranges::reverse(calls);
  const auto modules = static_cast<std::ptrdiff_t>(calls.size());
  for (uint32_t e = ops_.At(m.thread, at); e != SpanIndex::kNone; e = ops_.entries()[e].parent) {
    const NamedSpan& span = ops_.entries()[e].span;
    const NodeIndex node(span.name);
    if (rank_.kind(node) != NodeKind::kAnnotation) continue;
    calls.push_back({store_.name(rank_, node), span.end, e, false});
  }
  std::reverse(calls.begin() + modules, calls.end());
  return calls;
}

}  // namespace foretrace
