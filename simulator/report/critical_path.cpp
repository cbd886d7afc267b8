#include "simulator/report/critical_path.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "simulator/base/check.h"
#include "simulator/base/enum_names.h"

namespace foretrace {
namespace {

PathActivity GapActivity(WaitCause cause, bool on_cpu) {
  switch (cause) {
    case WaitCause::kNone:
    case WaitCause::kProgramOrder:
      // Between two calls of one thread stand the CPU ops and their overheads.
      return on_cpu ? PathActivity::kCpu : PathActivity::kStreamGap;
    case WaitCause::kLaunch:
      return PathActivity::kLaunchLatency;
    case WaitCause::kDependency:
      return PathActivity::kDependencyLatency;
    case WaitCause::kCollectiveArrival:
    case WaitCause::kCommunicatorBusy:
      return PathActivity::kArrivalLatency;
    case WaitCause::kNetwork:
      return PathActivity::kTransfer;
    case WaitCause::kCpuBlock:
      return PathActivity::kBlockReturn;
    case WaitCause::kDeviceRoom:
      return PathActivity::kDeviceRoom;
    case WaitCause::kLaunchQueue:
      return PathActivity::kLaunchQueue;
    case WaitCause::kStartSkew:
      return PathActivity::kStartSkew;
    case WaitCause::kCount:
      break;
  }
  return PathActivity::kUnexplained;
}

// Builds the segments backwards in time: each Take moves the cursor to an earlier instant.
class Walker {
 public:
  Walker(const EventTable& table, RankIndex rank, std::span<const IterationWindow> windows)
      : table_(table),
        windows_(windows),
        window_(windows[rank]),
        rank_(rank),
        cursor_(window_.predicted_end) {}

  std::vector<PathSegment> Walk() {
    NodeRef at = LastNode();
    bool from_end = true;  // enter the node at its end, not at its start
    while (cursor_ > window_.predicted_start) {
      const ExecutedNode* event = table_.Find(at);
      if (event == nullptr) break;
      if (cursor_ <= RankStart(at.rank)) {
        Add(window_.predicted_start, at, *event, PathActivity::kStartSkew);
        break;
      }
      if (cursor_ <= event->start) from_end = false;
      // A chain that comes back without progress names no cause.
      if (!Visit(at, from_end)) break;
      if (from_end) {
        std::tie(at, from_end) = ThroughBody(at, *event);
      } else {
        std::tie(at, from_end) = BeforeStart(at, *event);
      }
    }
    if (cursor_ > window_.predicted_start) {
      segments_.push_back({window_.predicted_start, cursor_, rank_, LaneIndex(), NodeIndex(),
                           PathActivity::kUnexplained, EstimateSource::kMissing});
    }
    std::reverse(segments_.begin(), segments_.end());
    return std::move(segments_);
  }

 private:
  // The node whose end decides the iteration's end: one that ends exactly there (the CPU before the
  // device), else the CPU call that came last, since an iteration's end is a point of a CPU thread;
  // without CPU calls the device node that came last. The device may run on past the end.
  NodeRef LastNode() {
    const RankTrace& rank = table_.store().ranks()[rank_];
    std::pair<int, SimTime> best(-1, SimTime::Min());
    NodeRef last;
    for (const ExecutedNode& event : table_.events(rank_)) {
      if (event.start >= window_.predicted_end) continue;
      const bool device = IsDeviceKind(rank.kind(event.node));
      const bool exact = event.end == window_.predicted_end;
      const int preference = (exact ? 2 : 0) + (device ? 0 : 1);
      const std::pair<int, SimTime> candidate(preference,
                                              std::min(event.end, window_.predicted_end));
      if (candidate < best) continue;
      best = candidate;
      last = {rank_, event.node};
    }
    if (const ExecutedNode* event = table_.Find(last); event != nullptr) {
      const bool device = IsDeviceKind(rank.kind(last.node));
      Take(event->end, last, *event, device ? PathActivity::kUnexplained : PathActivity::kCpu);
    }
    return last;
  }

  bool Visit(NodeRef ref, bool from_end) {
    if (cursor_ != visited_at_) {
      visited_.clear();
      visited_at_ = cursor_;
    }
    return visited_.insert({ref.rank, uint64_t{ref.node.value} << 1 | (from_end ? 1 : 0)}).second;
  }

  // Where the path may go on this rank.
  SimTime RankStart(RankIndex rank) const {
    return std::max(window_.predicted_start, windows_[rank].predicted_start);
  }

  // Gives the time from `until` to the cursor to `activity`, as far as it is in the iteration.
  void Take(SimTime until, NodeRef ref, const ExecutedNode& event, PathActivity activity) {
    Add(std::max(until, RankStart(ref.rank)), ref, event, activity);
  }
  void Add(SimTime until, NodeRef ref, const ExecutedNode& event, PathActivity activity) {
    if (until >= cursor_) return;
    segments_.push_back({until, cursor_, ref.rank, LaneIndex(event.lane), ref.node, activity,
                         event.source, event.extrapolated});
    cursor_ = until;
  }

  NodeKind Kind(NodeRef ref) const { return table_.store().ranks()[ref.rank].kind(ref.node); }

  std::pair<NodeRef, bool> ThroughBody(NodeRef at, const ExecutedNode& event) {
    const ExecutedNode* binding = table_.Find(event.end_binding);
    if (IsCommunicationKind(Kind(at))) {
      Take(event.active_start, at, event, PathActivity::kTransfer);
      if (binding == nullptr || event.active_start <= event.start) {
        Take(event.start, at, event, PathActivity::kArrivalLatency);
        return {at, false};
      }
      if (event.end_cause == WaitCause::kCommunicatorBusy) {
        Take(binding->end, at, event, PathActivity::kArrivalLatency);
        return {event.end_binding, true};
      }
      // The last member's own arrival is where the wait ended.
      if (IsCommunicationKind(Kind(event.end_binding))) {
        Take(binding->start, at, event, PathActivity::kArrivalLatency);
        return {event.end_binding, false};
      }
      Take(binding->end, at, event, PathActivity::kArrivalLatency);
      return {event.end_binding, true};
    }
    const bool device = IsDeviceKind(Kind(at));
    // What begins only later than the cursor cannot have held this node up to it: a blocking copy's
    // call is entered here from the copy that it issued itself.
    if (binding == nullptr || binding->end <= event.start || binding->start >= cursor_) {
      Take(event.start, at, event, device ? PathActivity::kCompute : PathActivity::kCpu);
      return {at, false};
    }
    Take(binding->end, at, event, GapActivity(event.end_cause, !device));
    return {event.end_binding, true};
  }

  std::pair<NodeRef, bool> BeforeStart(NodeRef at, const ExecutedNode& event) {
    const bool on_cpu = !IsDeviceKind(Kind(at));
    const PathActivity gap = GapActivity(event.cause, on_cpu);
    const ExecutedNode* binding = table_.Find(event.binding);
    if (binding == nullptr) {
      // The first of its lane: a CPU thread has been at its ops since the window's start.
      const bool skewed = event.cause == WaitCause::kStartSkew;
      const bool explained = on_cpu || skewed;
      // From the rank's own start on the CPU works; only what is before that is skew.
      const PathActivity activity = on_cpu && skewed ? PathActivity::kCpu
                                    : explained      ? gap
                                                     : PathActivity::kUnexplained;
      Take(window_.predicted_start, at, event, activity);
      return {at, false};  // what is left is before this rank's iteration
    }
    Take(binding->end, at, event, gap);
    return {event.binding, true};
  }

  const EventTable& table_;
  std::span<const IterationWindow> windows_;
  const IterationWindow& window_;
  RankIndex rank_;
  SimTime cursor_;
  std::vector<PathSegment> segments_;
  absl::flat_hash_set<std::pair<uint32_t, uint64_t>> visited_;
  SimTime visited_at_ = SimTime::Max();
};

PathRunKind RunKind(const EventTable& table, const PathSegment& segment) {
  if (!segment.node.valid() || segment.activity == PathActivity::kUnexplained) {
    return PathRunKind::kUnexplained;
  }
  if (segment.activity == PathActivity::kStartSkew) return PathRunKind::kStartSkew;
  const NodeKind kind = table.store().ranks()[segment.rank].kind(segment.node);
  if (IsCommunicationKind(kind)) return PathRunKind::kCommunication;
  return IsDeviceKind(kind) ? PathRunKind::kCompute : PathRunKind::kCpu;
}

bool IsLatency(PathActivity activity) {
  return activity != PathActivity::kCpu && activity != PathActivity::kCompute &&
         activity != PathActivity::kTransfer && activity != PathActivity::kUnexplained;
}

template <typename Key>
Key Largest(const absl::flat_hash_map<Key, SimTime>& times, Key none) {
  Key best = none;
  SimTime most = SimTime::Min();
  for (const auto& [key, time] : times) {
    // Ties by key, since the map's order is not deterministic.
    if (time > most || (time == most && key < best)) {
      best = key;
      most = time;
    }
  }
  return best;
}

// Merges segments[begin, end), which are of one run.
PathRun MakeRun(const EventTable& table, const Classifier& classifier, PathRunKind kind,
                std::span<const PathSegment> segments) {
  PathRun run;
  run.rank = segments.front().rank;
  run.lane = segments.front().lane;
  run.kind = kind;
  run.start = segments.front().start;
  run.end = segments.back().end;
  absl::flat_hash_map<WorkGroup, SimTime> groups;
  absl::flat_hash_map<StringId, SimTime> names;
  NodeIndex previous;
  for (const PathSegment& segment : segments) {
    const SimTime time = segment.end - segment.start;
    if (IsLatency(segment.activity)) run.latency += time;
    if (!segment.node.valid()) continue;
    run.nodes += kind != PathRunKind::kStartSkew && segment.node != previous;
    previous = segment.node;
    const RankTrace& rank = table.store().ranks()[segment.rank];
    StringId name = rank.name(segment.node);
    if (kind == PathRunKind::kCpu) {
      const NodeIndex op = classifier.FrameworkOp(segment.rank, segment.node);
      if (op.valid()) name = rank.name(op);
    } else if (IsDeviceKind(rank.kind(segment.node))) {
      groups[classifier.Group(segment.rank, segment.node)] += time;
    }
    names[name] += time;
  }
  run.group = Largest(groups, WorkGroup::kCount);
  run.name = Largest(names, StringId(0));
  return run;
}

void Summarize(const EventTable& table, const Classifier& classifier, CriticalPath& path) {
  path.by_rank.resize(table.rank_count());
  for (const PathSegment& segment : path.segments) {
    const SimTime time = segment.end - segment.start;
    path.total += time;
    path.by_activity[static_cast<size_t>(segment.activity)] += time;
    path.by_source[static_cast<size_t>(segment.source)] += time;
    if (segment.extrapolated) path.extrapolated += time;
    path.by_rank[segment.rank] += time;
    const bool work =
        segment.activity == PathActivity::kCompute || segment.activity == PathActivity::kTransfer;
    if (work && segment.node.valid() &&
        IsDeviceKind(table.store().ranks()[segment.rank].kind(segment.node))) {
      path.by_group[static_cast<size_t>(classifier.Group(segment.rank, segment.node))] += time;
    }
  }
  const std::span<const PathSegment> all(path.segments);
  for (size_t begin = 0; begin < all.size();) {
    const PathRunKind kind = RunKind(table, all[begin]);
    size_t end = begin + 1;
    while (end < all.size() && all[end].rank == all[begin].rank &&
           all[end].lane == all[begin].lane && RunKind(table, all[end]) == kind) {
      ++end;
    }
    path.runs.push_back(MakeRun(table, classifier, kind, all.subspan(begin, end - begin)));
    begin = end;
  }
}

}  // namespace

std::string_view Name(PathActivity activity) {
  static constexpr std::array<std::string_view, 12> kNames = {"cpu",
                                                              "compute",
                                                              "transfer",
                                                              "launch_latency",
                                                              "stream_gap",
                                                              "dependency_latency",
                                                              "arrival_latency",
                                                              "block_return",
                                                              "device_room",
                                                              "launch_queue",
                                                              "start_skew",
                                                              "unexplained"};
  return EnumName(kNames, activity);
}

std::string_view Name(PathRunKind kind) {
  static constexpr std::array<std::string_view, 5> kNames = {"cpu", "compute", "communication",
                                                             "start_skew", "unexplained"};
  return EnumName(kNames, kind);
}

CriticalPath ComputeCriticalPath(const EventTable& table, const Classifier& classifier,
                                 std::span<const IterationWindow> windows) {
  FORETRACE_CHECK(windows.size() == table.rank_count());
  CriticalPath path;
  for (RankIndex r = 1; r < table.rank_count(); ++r) {
    if (windows[r].predicted() > windows[path.end_rank].predicted()) path.end_rank = r;
  }
  if (windows.empty()) return path;
  path.segments = Walker(table, path.end_rank, windows).Walk();
  Summarize(table, classifier, path);
  return path;
}

std::vector<PathRun> LongestRuns(const CriticalPath& path, size_t limit) {
  std::vector<PathRun> runs = path.runs;
  std::stable_sort(runs.begin(), runs.end(),
                   [](const PathRun& a, const PathRun& b) { return a.time() > b.time(); });
  runs.resize(std::min(limit, runs.size()));
  return runs;
}

}  // namespace foretrace
