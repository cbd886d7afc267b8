#include "simulator/replay/attribution/frame_index.h"

#include <string>

namespace foretrace {
namespace {

SimTime Relative(const RankTrace& rank, int64_t ns) {
  return SimTime::FromNs(ns - rank.info().origin_ns);
}

NamedSpan SpanOf(const RankTrace& rank, const ThreadSpan& at, uint32_t name) {
  return {at.thread, Relative(rank, at.start_ns), Relative(rank, at.end_ns), name};
}

}  // namespace

const ProfileExtras* ExtrasOf(const RankTrace& rank, std::span<const ProfileExtras> extras) {
  for (const ProfileExtras& of : extras) {
    if (rank.info().source.find(of.source) != std::string::npos) return &of;
  }
  return nullptr;
}

std::vector<NamedSpan> FramesOf(const RankTrace& rank, const ProfileExtras& extras, bool modules) {
  std::vector<NamedSpan> spans;
  for (const ProfileExtras::Frame& frame : extras.frames) {
    if (frame.module == modules) spans.push_back(SpanOf(rank, frame.at, frame.name));
  }
  return spans;
}

FrameIndex::FrameIndex(const RankTrace& rank, std::vector<NamedSpan> spans,
                       const ProfileExtras* extras)
    : rank_(rank), spans_(std::move(spans)), backward_({}) {
  if (extras != nullptr) ReadAutograd(*extras);
}

void FrameIndex::ReadAutograd(const ProfileExtras& extras) {
  std::vector<NamedSpan> backward;
  for (const ProfileExtras::Autograd& op : extras.autograd) {
    const NamedSpan span = SpanOf(rank_, op.at, static_cast<uint32_t>(sequence_.size()));
    if (op.backward) {
      sequence_.push_back(op.sequence);
      backward.push_back(span);
    } else {
      forward_.emplace(std::pair(op.sequence, span.start), span.thread);
    }
  }
  backward_ = SpanIndex(std::move(backward));
}

uint32_t FrameIndex::EntryOf(NodeIndex n) const {
  NodeIndex call = n;
  if (IsDeviceKind(rank_.kind(n))) {
    call = rank_.launcher(n).valid() ? rank_.launcher(n) : rank_.parent(n);
  }
  if (!call.valid()) return SpanIndex::kNone;
  const int64_t thread = rank_.lane_at(rank_.lane(call)).id;
  const SimTime time = rank_.start(call);
  const uint32_t entry = spans_.At(thread, time);
  if (entry != SpanIndex::kNone) return entry;
  const uint32_t op = backward_.At(thread, time);
  return op == SpanIndex::kNone ? op : EntryOfBackward(backward_.entries()[op].span);
}

uint32_t FrameIndex::EntryOfBackward(const NamedSpan& op) const {
  const int64_t sequence = sequence_[op.name];
  auto it = forward_.upper_bound({sequence, op.start});
  if (it == forward_.begin()) return SpanIndex::kNone;
  --it;
  if (it->first.first != sequence) return SpanIndex::kNone;
  return spans_.At(it->second, it->first.second);
}

}  // namespace foretrace
