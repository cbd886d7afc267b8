#include "simulator/report/timeline_extras.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace foretrace {
namespace {

bool IsWork(PathActivity activity) {
  return activity == PathActivity::kCpu || activity == PathActivity::kCompute ||
         activity == PathActivity::kTransfer;
}

}  // namespace

void WriteCriticalPathTrack(const EventTable& table, const CriticalPath& path, SimTime origin,
                            int32_t process, TimelineWriter& writer) {
  constexpr size_t kLongestName = 1000;
  if (path.segments.empty()) return;
  const TraceStore& store = table.store();
  const TimelineWriter::Track track{process, 1};
  writer.Process(process, "critical path", "of the reported iteration", -1);
  writer.Thread(track, "critical path", 0);
  for (const PathSegment& segment : path.segments) {
    const RankTrace& rank = store.ranks()[segment.rank];
    const bool named = segment.node.valid() && IsWork(segment.activity);
    const std::string_view name =
        named ? store.name(rank, segment.node).substr(0, kLongestName) : Name(segment.activity);
    const std::string_view lane =
        segment.lane.valid() ? std::string_view(rank.lane_at(segment.lane).label) : "";
    const TimelineArg args[] = {
        {"activity", Name(segment.activity)}, {"rank", rank.info().rank}, {"lane", lane}};
    writer.Slice(track, TimelineText(name), "critical_path", segment.start - origin,
                 segment.end - origin, args);
  }
}

void WriteLaunchQueueCounter(const EventTable& table, RankIndex rank, SimTime origin,
                             int32_t process, TimelineWriter& writer) {
  constexpr SimTime kResolution = SimTime::FromNs(10'000);
  const RankTrace& trace = table.store().ranks()[rank];
  std::vector<std::pair<SimTime, int32_t>> changes;
  for (const ExecutedNode& e : table.events(rank)) {
    if (!IsDeviceKind(trace.kind(e.node))) continue;
    const ExecutedNode* call = table.Find({rank, trace.launcher(e.node)});
    if (call == nullptr || call->end >= e.start) continue;
    changes.emplace_back(call->end, 1);
    changes.emplace_back(e.start, -1);
  }
  std::sort(changes.begin(), changes.end());
  int64_t depth = 0;
  for (size_t i = 0; i < changes.size(); ++i) {
    depth += changes[i].second;
    const bool last = i + 1 == changes.size();
    const auto tick = [&](size_t k) { return changes[k].first.ps() / kResolution.ps(); };
    if (!last && tick(i + 1) == tick(i)) continue;
    writer.Counter(process, "launch queue", changes[i].first - origin, depth);
  }
}

void WriteCommunicationCounter(const EventTable& table, RankIndex rank, SimTime origin,
                               int32_t process, TimelineWriter& writer) {
  const RankTrace& trace = table.store().ranks()[rank];
  std::vector<std::pair<SimTime, int64_t>> changes;
  for (const ExecutedNode& e : table.events(rank)) {
    if (!IsCommunicationKind(trace.kind(e.node))) continue;
    const CommAttr* attr = trace.comm(e.node);
    const SimTime time = e.end - e.active_start;
    if (attr == nullptr || time <= SimTime()) continue;
    const Bytes bytes = std::max(attr->bytes_in, attr->bytes_out);
    const auto rate = static_cast<int64_t>(static_cast<double>(bytes.count()) / time.us());
    if (rate == 0) continue;
    changes.emplace_back(e.active_start, rate);
    changes.emplace_back(e.end, -rate);
  }
  std::sort(changes.begin(), changes.end());
  int64_t sum = 0;
  for (size_t i = 0; i < changes.size(); ++i) {
    sum += changes[i].second;
    if (i + 1 < changes.size() && changes[i + 1].first == changes[i].first) continue;
    writer.Counter(process, "communication MB/s", changes[i].first - origin, sum);
  }
}

}  // namespace foretrace
