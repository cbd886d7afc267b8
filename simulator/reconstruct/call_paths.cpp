#include "simulator/reconstruct/call_paths.h"

#include <algorithm>
#include <string_view>

namespace foretrace {
namespace {

// Ops nest a few levels deep; hostile input may nest further than is useful to follow.
constexpr int kMaxDepth = 64;

}  // namespace

CallPaths::CallPaths(const RankTrace& rank, const StringPool& strings)
    : rank_(rank), strings_(strings) {
  for (const IterationMark& mark : rank.iterations()) step_marks_.push_back(mark.node.value);
  std::sort(step_marks_.begin(), step_marks_.end());
}

uint64_t CallPaths::NameHash(StringId name) {
  const auto [it, inserted] = names_.emplace(name.value, 0);
  if (!inserted) return it->second;
  uint64_t hash = 1;
  bool in_number = false;
  for (const char c : strings_.Get(name)) {
    const bool digit = c >= '0' && c <= '9';
    if (digit && in_number) continue;
    in_number = digit;
    hash = MixHash(hash, digit ? '#' : static_cast<unsigned char>(c));
  }
  return it->second = hash;
}

uint64_t CallPaths::Of(NodeIndex op) {
  uint64_t path = 0;
  for (int depth = 0; op.valid() && depth < kMaxDepth; ++depth, op = rank_.parent(op)) {
    if (std::binary_search(step_marks_.begin(), step_marks_.end(), op.value)) continue;
    path = MixHash(path, NameHash(rank_.name(op)));
  }
  return path;
}

std::vector<uint64_t> CallPaths::PlacesOf(const std::vector<NodeIndex>& calls) {
  std::vector<uint64_t> places;
  places.reserve(calls.size());
  absl::flat_hash_map<uint64_t, uint64_t> count;
  for (const NodeIndex call : calls) {
    const NodeIndex op = rank_.parent(call);
    const uint64_t path = Of(op);
    // An op of this iteration and no other; else the iteration itself.
    const uint64_t inside = path != 0
                                ? uint64_t{op.value}
                                : ~static_cast<uint64_t>(rank_.iteration_at(rank_.start(call)) + 1);
    places.push_back(MixHash(path, count[inside]++));
  }
  return places;
}

RecordPoints::RecordPoints(const RankTrace& rank, const CpuTimeline& timeline, CallPaths& paths) {
  std::vector<bool> member(rank.lanes().size(), false);
  for (const LaneIndex lane : timeline.threads) member[lane.value] = true;
  for (uint32_t i = 0; i < rank.size(); ++i) {
    const NodeIndex n(i);
    if (!member[rank.lane(n).value]) continue;
    if (rank.kind(n) == NodeKind::kRuntimeCall) {
      if (rank.runtime_call(n) != RuntimeCall::kEventRecord) continue;
      points_.push_back({rank.start(n), MixHash(paths.Of(rank.parent(n)), 3)});
    } else if (rank.has_duration(n)) {
      const uint64_t path = paths.Of(n);
      points_.push_back({rank.start(n), MixHash(path, 1)});
      points_.push_back({rank.end(n), MixHash(path, 2)});
    }
  }
  std::stable_sort(points_.begin(), points_.end(),
                   [](const Point& a, const Point& b) { return a.at < b.at; });
  for (const Point& p : points_) times_[p.key].push_back(p.at);
}

int64_t RecordPoints::CountBetween(uint64_t key, SimTime from, SimTime to) const {
  const auto it = times_.find(key);
  if (it == times_.end()) return 0;
  const auto first = std::upper_bound(it->second.begin(), it->second.end(), from);
  const auto last = std::lower_bound(first, it->second.end(), to);
  return last - first;
}

std::optional<SimTime> RecordPoints::Before(uint64_t key, SimTime to, int64_t between) const {
  const auto it = times_.find(key);
  if (it == times_.end()) return std::nullopt;
  const auto last = std::lower_bound(it->second.begin(), it->second.end(), to);
  const int64_t position = (last - it->second.begin()) - 1 - between;
  if (position < 0) return std::nullopt;
  return it->second[static_cast<size_t>(position)];
}

}  // namespace foretrace
