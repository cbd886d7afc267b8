#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "simulator/exporters/timeline/timeline_writer.h"
#include "simulator/trace/rank_trace.h"

namespace foretrace {

// One process row: the lanes of one rank, predicted or recorded. Gives each lane one track, and
// further tracks for work that overlaps on it.
class ProcessRow {
 public:
  ProcessRow(const RankTrace& rank, int32_t process, TimelineWriter& writer)
      : rank_(rank), process_(process), writer_(writer), free_at_(rank.lanes().size()) {}

  using Track = TimelineWriter::Track;

  Track Base(uint32_t lane) { return Use(lane, 0); }
  // The first track of the lane that is free at `start`; it is taken until `end`.
  Track Place(uint32_t lane, SimTime start, SimTime end) {
    std::vector<SimTime>& tracks = free_at_[lane];
    size_t k = 0;
    while (k < tracks.size() && tracks[k] > start) ++k;
    const Track track = Use(lane, k);
    tracks[k] = std::max(tracks[k], end);
    return track;
  }
  // When the lane's first track became free; unset before its first use.
  std::optional<SimTime> FreeAt(uint32_t lane) const {
    if (free_at_[lane].empty()) return std::nullopt;
    return free_at_[lane].front();
  }

 private:
  Track Use(uint32_t lane, size_t k) {
    std::vector<SimTime>& tracks = free_at_[lane];
    const auto lanes = static_cast<int32_t>(free_at_.size());
    const Track track{process_, 1 + static_cast<int32_t>(lane) + static_cast<int32_t>(k) * lanes};
    if (k < tracks.size()) return track;
    tracks.push_back(SimTime::Min());
    const Lane& l = rank_.lane_at(LaneIndex(lane));
    const int32_t order = (l.kind == Lane::Kind::kStream ? 1 << 20 : 0) +
                          static_cast<int32_t>(lane) * 16 + static_cast<int32_t>(k);
    writer_.Thread(track, k == 0 ? l.label : fmt::format("{} (concurrent {})", l.label, k), order);
    return track;
  }

  const RankTrace& rank_;
  int32_t process_;
  TimelineWriter& writer_;
  std::vector<std::vector<SimTime>> free_at_;  // by lane and track
};

}  // namespace foretrace
