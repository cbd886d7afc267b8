#include "simulator/reconstruct/cpu_timeline.h"

#include <algorithm>
#include <array>
#include <limits>

#include "simulator/base/enum_names.h"
#include "simulator/reconstruct/launch_queues.h"

namespace foretrace {
namespace {

constexpr SimTime kUnexplained = SimTime::FromNs(100'000);

struct OutermostOp {
  NodeIndex node;
  SimTime start;
  SimTime end;
};

// Ops of the framework that are not nested in other ops; annotations do not count as ops.
std::vector<OutermostOp> OutermostOps(const RankTrace& rank, const CpuTimeline& timeline) {
  std::vector<bool> member(rank.lanes().size(), false);
  for (LaneIndex lane : timeline.threads) member[lane.value] = true;
  std::vector<OutermostOp> ops;
  SimTime covered = SimTime::Min();
  for (uint32_t i = 0; i < rank.size(); ++i) {
    const NodeIndex n(i);
    if (rank.kind(n) != NodeKind::kCpuOp || !member[rank.lane(n).value] || !rank.has_duration(n)) {
      continue;
    }
    if (rank.end(n) <= covered) continue;
    // Threads of one timeline do not overlap; what does is a nested op.
    if (!ops.empty() && rank.start(n) < covered) continue;
    ops.push_back({n, rank.start(n), rank.end(n)});
    covered = rank.end(n);
  }
  return ops;
}

// Splits gaps between points into T1..T5 along the outermost ops.
class Segmenter {
 public:
  Segmenter(const RankTrace& rank, std::vector<OutermostOp> ops,
            const std::vector<CpuPoint>& points)
      : rank_(rank), ops_(std::move(ops)) {
    launches_.resize(ops_.size());
    size_t op = 0;
    for (uint32_t p = 0; p < points.size(); ++p) {
      if (points[p].is_mark) continue;
      while (op < ops_.size() && ops_[op].end <= points[p].recorded_start) ++op;
      if (op == ops_.size()) break;
      if (ops_[op].start > points[p].recorded_start) continue;
      if (launches_[op].count++ == 0) launches_[op].first = points[p].recorded_start;
      launches_[op].last = points[p].recorded_start;
    }
  }

  // Appends the segments of [from, to); calls come in order of time.
  void Split(SimTime from, SimTime to, std::vector<OverheadSegment>& out) {
    if (to < from) {
      out.push_back({OverheadKind::kT1, StringId(0), to - from});
      return;
    }
    while (cursor_ < ops_.size() && ops_[cursor_].end <= from) ++cursor_;
    size_t op = cursor_;
    SimTime at = from;
    while (at < to) {
      if (op == ops_.size() || ops_[op].start >= to) {
        out.push_back({OverheadKind::kT1,
                       op == ops_.size() ? StringId(0) : rank_.name(ops_[op].node), to - at});
        return;
      }
      if (ops_[op].start > at) {
        out.push_back({OverheadKind::kT1, rank_.name(ops_[op].node), ops_[op].start - at});
        at = ops_[op].start;
      }
      const SimTime piece_end = std::min(to, ops_[op].end);
      if (piece_end > at)
        out.push_back({KindWithin(op, at), rank_.name(ops_[op].node), piece_end - at});
      at = piece_end;
      if (ops_[op].end <= to) ++op;
    }
  }

 private:
  struct Launches {
    int count = 0;
    SimTime first;
    SimTime last;
  };

  OverheadKind KindWithin(size_t op, SimTime at) const {
    const Launches& l = launches_[op];
    if (l.count == 0) return OverheadKind::kT5;
    if (at < l.first) return OverheadKind::kT2;
    return at >= l.last ? OverheadKind::kT3 : OverheadKind::kT5;
  }

  const RankTrace& rank_;
  std::vector<OutermostOp> ops_;
  std::vector<Launches> launches_;
  size_t cursor_ = 0;
};

std::vector<CpuPoint> CollectPoints(const RankTrace& rank, const CpuTimeline& timeline,
                                    const DeviceIndex& index, bool with_marks) {
  std::vector<CpuPoint> points;
  points.reserve(timeline.calls.size() + (with_marks ? 2 * rank.iterations().size() : 0));
  for (const NodeIndex call : timeline.calls) {
    CpuPoint p;
    p.node = call;
    p.recorded_start = rank.start(call);
    p.blocking = IsSynchronize(rank.runtime_call(call));
    p.blocking = p.blocking || index.HoldsUntilCopied(call);
    if (!p.blocking && rank.has_duration(call)) p.duration = rank.duration(call);
    points.push_back(p);
  }
  const auto calls = static_cast<ptrdiff_t>(points.size());
  if (with_marks) {
    for (const IterationMark& mark : rank.iterations()) {
      for (const SimTime at : {rank.start(mark.node), rank.end(mark.node)}) {
        CpuPoint p;
        p.node = mark.node;
        p.is_mark = true;
        p.recorded_start = at;
        points.push_back(p);
      }
    }
  }
  // Calls are in order already. A mark comes before a call at the same instant.
  const auto before = [](const CpuPoint& a, const CpuPoint& b) {
    if (a.recorded_start != b.recorded_start) return a.recorded_start < b.recorded_start;
    return a.is_mark && !b.is_mark;
  };
  std::stable_sort(points.begin() + calls, points.end(), before);
  std::inplace_merge(points.begin(), points.begin() + calls, points.end(), before);
  return points;
}

SimTime Median(std::vector<SimTime>& times) {
  const auto middle = times.begin() + static_cast<ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

SimTime MedianDuration(const std::vector<CpuPoint*>& launches) {
  std::vector<SimTime> times;
  for (const CpuPoint* p : launches) times.push_back(p->duration);
  return Median(times);
}

// Launches of one queue, by whether it had room.
struct LaunchesOfQueue {
  std::vector<CpuPoint*> with_room, without_room;
  std::vector<CpuPoint*> before_all;  // with room, as far as is recorded: nothing had begun
};

// What was left of launches without room when a start had made some.
std::vector<SimTime> AfterRoom(const std::vector<CpuPoint*>& launches,
                               const std::vector<SimTime>& starts) {
  std::vector<SimTime> left;
  for (const CpuPoint* p : launches) {
    const SimTime end = p->recorded_start + p->duration;
    const auto next = std::upper_bound(starts.begin(), starts.end(), end);
    if (next != starts.begin() && *(next - 1) > p->recorded_start)
      left.push_back(end - *(next - 1));
  }
  return left;
}

// Launches that were held by a full launch queue get the typical launch duration instead: where it
// is known to have been full, and where launches of such a recording took long before any recorded
// work began, when it held what the recording does not. `typical` is set where there are any.
int64_t MarkQueueFull(const RankTrace& rank, const DeviceIndex& index,
                      std::vector<CpuPoint>& points, SimTime& typical) {
  const size_t full = NearlyFull(index.driver().launch_queue_depth);
  if (full == 0 || rank.size() < full) return 0;
  const LaunchQueues queues(rank);
  std::vector<LaunchesOfQueue> launches(queues.size());
  for (CpuPoint& p : points) {
    if (p.is_mark || p.blocking || index.issued_by(p.node).empty()) continue;
    const NodeIndex device = index.issued_by(p.node).front();
    LaunchesOfQueue& of_queue = launches[queues.QueueOf(device)];
    const bool has_room = queues.Outstanding(device, p.recorded_start) < full;
    const bool first = p.recorded_start < queues.StartsAround(device).front();
    (!has_room ? of_queue.without_room
     : first   ? of_queue.before_all
               : of_queue.with_room)
        .push_back(&p);
  }
  std::vector<CpuPoint*> without_room;
  std::vector<SimTime> with_room, after_room;
  for (LaunchesOfQueue& l : launches) {
    if (!l.without_room.empty()) {
      const SimTime held = MedianDuration(l.without_room);
      const auto& starts =
          queues.StartsAround(index.issued_by(l.without_room.front()->node).front());
      for (const SimTime left : AfterRoom(l.without_room, starts)) after_room.push_back(left);
      // Before any recorded work began the queue may hold what the recording does not: then
      // launches take as long as those that were held.
      const bool full_from_before =
          !l.before_all.empty() &&
          MedianDuration(l.before_all) + MedianDuration(l.before_all) > held;
      if (full_from_before) {
        l.without_room.insert(l.without_room.end(), l.before_all.begin(), l.before_all.end());
        l.before_all.clear();
      }
      without_room.insert(without_room.end(), l.without_room.begin(), l.without_room.end());
    }
    for (const auto& roomy : {l.with_room, l.before_all}) {
      for (const CpuPoint* p : roomy) with_room.push_back(p->duration);
    }
  }
  // What launches take that find room; where none does, what was left of the others when a start
  // had made room.
  if (without_room.empty() || (with_room.empty() && after_room.empty())) return 0;
  typical = Median(with_room.empty() ? after_room : with_room);
  int64_t held = 0;
  for (CpuPoint* p : without_room) {
    p->queue_full = p->duration > typical + typical;
    held += p->queue_full ? 1 : 0;
  }
  return held;
}

// The end of the innermost op around a call; the call's start without one.
SimTime EndOfOpAround(const RankTrace& rank, NodeIndex call) {
  const NodeIndex op = rank.parent(call);
  const bool known = op.valid() && rank.kind(op) == NodeKind::kCpuOp && rank.has_duration(op);
  return known ? rank.end(op) : rank.start(call);
}

// When the CPU goes on after a blocking call, for what is known that it waited for. What nothing
// explains is counted, and dropped where the op around the call tells how long it was: the call's
// own length must not decide anything.
SimTime ResumeAfterBlocking(const RankTrace& rank, const RankSync& sync, const SyncCosts& costs,
                            const CpuPoint& call, bool before_all, SimTime next,
                            CpuTimelinePoints& counts) {
  SimTime explained = call.recorded_start + costs.call;
  for (const SyncEdge& e : EdgesOf(sync.block_edges, call.node)) {
    explained = std::max(explained, rank.end(e.producer) + costs.resume);
  }
  for (const HeldWait& kept : sync.after_unrecorded) {
    if (kept.held == call.node) explained = std::max(explained, rank.end(call.node));
  }
  const SimTime unexplained =
      rank.has_duration(call.node) ? rank.end(call.node) - explained : SimTime();
  if (unexplained > kUnexplained) {
    ++counts.unexplained_blocks;
    counts.unexplained_time += unexplained;
  }
  const SimTime op_end = EndOfOpAround(rank, call.node);
  const bool dropped = !before_all && op_end - explained > kUnexplained && op_end <= next;
  return dropped ? op_end : std::min(explained, next);
}

}  // namespace

std::string_view Name(OverheadKind kind) {
  static constexpr std::array<std::string_view, 5> kNames = {"T1", "T2", "T3", "T4", "T5"};
  return EnumName(kNames, kind);
}

CpuTimelinePoints BuildCpuTimeline(const RankTrace& rank, const CpuTimeline& timeline,
                                   const DeviceIndex& index, const RankSync& sync,
                                   const SyncCosts& costs, bool with_marks) {
  CpuTimelinePoints result;
  result.points = CollectPoints(rank, timeline, index, with_marks);
  SimTime typical_launch;
  result.queue_full_launches = MarkQueueFull(rank, index, result.points, typical_launch);
  Segmenter segmenter(rank, OutermostOps(rank, timeline), result.points);

  result.segments.reserve(result.points.size());

  SimTime first_launch = SimTime::Max();
  for (const CpuPoint& p : result.points) {
    if (p.is_mark || index.issued_by(p.node).empty()) continue;
    first_launch = p.recorded_start;
    break;
  }
  SimTime resume = result.points.empty() ? SimTime() : result.points.front().recorded_start;
  for (size_t i = 0; i < result.points.size(); ++i) {
    CpuPoint& p = result.points[i];
    const SimTime next =
        i + 1 < result.points.size() ? result.points[i + 1].recorded_start : SimTime::Max();
    p.segments_begin = static_cast<uint32_t>(result.segments.size());
    p.lead = p.recorded_start - resume;
    segmenter.Split(resume, p.recorded_start, result.segments);
    p.segments_end = static_cast<uint32_t>(result.segments.size());
    resume = p.recorded_start + p.duration;
    if (p.queue_full) {
      // The wait ends when the call does; what follows it is overhead.
      p.duration = typical_launch;
    }
    if (p.blocking) {
      // Before the first recorded launch there is nothing that it could have waited for: it waited
      // for work of before the recording.
      const bool before_all = p.recorded_start < first_launch;
      resume = ResumeAfterBlocking(rank, sync, costs, p, before_all, next, result);
    }
  }
  return result;
}

}  // namespace foretrace
