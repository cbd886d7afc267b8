#include "simulator/report/timeline_path.h"

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

}  // namespace foretrace
