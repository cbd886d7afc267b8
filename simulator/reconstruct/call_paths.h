#pragma once
// Where in a program a CPU call stands: the same in every iteration, whatever the times.
//
// The place of a call is the ops and annotations around it. Numbers in their names differ from
// iteration to iteration ("ProfilerStep#7", "## copy_batch_to_gpu 12 ##") and do not count, nor do
// step marks.

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "simulator/base/string_pool.h"
#include "simulator/reconstruct/issue_order.h"
#include "simulator/trace/rank_trace.h"

namespace foretrace {

class CallPaths {
 public:
  CallPaths(const RankTrace& rank, const StringPool& strings);

  // Of an op or annotation with those around it; of an invalid node and of step marks: zero.
  uint64_t Of(NodeIndex op);
  // The place of each call: the path around it, and how many of `calls` came before it in the
  // innermost op (outside of ops: in the iteration). `calls` are in order of start.
  std::vector<uint64_t> PlacesOf(const std::vector<NodeIndex>& calls);

 private:
  uint64_t NameHash(StringId name);

  const RankTrace& rank_;
  const StringPool& strings_;
  std::vector<uint32_t> step_marks_;  // ascending
  absl::flat_hash_map<uint32_t, uint64_t> names_;
};

// The begins and ends of ops and annotations, and the event records, of one CPU timeline. Each is a
// point at which an event can have been recorded, found again in other iterations by its key and by
// how many points of that key lie between it and a wait.
class RecordPoints {
 public:
  struct Point {
    SimTime at;
    uint64_t key = 0;
  };
  RecordPoints(const RankTrace& rank, const CpuTimeline& timeline, CallPaths& paths);

  // In order of time.
  const std::vector<Point>& all() const { return points_; }
  // How many points of the key lie in (from, to).
  int64_t CountBetween(uint64_t key, SimTime from, SimTime to) const;
  // The point of the key before `to` with `between` more of them in between; none if there are not
  // that many.
  std::optional<SimTime> Before(uint64_t key, SimTime to, int64_t between) const;

 private:
  std::vector<Point> points_;
  absl::flat_hash_map<uint64_t, std::vector<SimTime>> times_;
};

}  // namespace foretrace
