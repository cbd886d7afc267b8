#include "simulator/report/timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "simulator/report/classify.h"
#include "simulator/report/timeline_filter.h"
#include "simulator/report/timeline_names.h"
#include "simulator/report/timeline_path.h"
#include "simulator/report/timeline_rows.h"

namespace foretrace {
namespace {

using Track = TimelineWriter::Track;

std::string_view Category(NodeKind kind) {
  switch (kind) {
    case NodeKind::kCpuOp:
      return "cpu_op";
    case NodeKind::kRuntimeCall:
      return "runtime";
    case NodeKind::kKernel:
      return "kernel";
    case NodeKind::kMemcpy:
    case NodeKind::kMemset:
      return "memcpy";
    case NodeKind::kAnnotation:
      return "annotation";
    default:
      return "communication";
  }
}

// A slice of a CPU thread.
struct CpuSlice {
  SimTime start;
  SimTime end;
  NodeIndex node;  // invalid: a wait
  WaitCause cause = WaitCause::kNone;
};

class RunDrawer {
 public:
  RunDrawer(const EventTable& table, const TimelineOptions& options, TimelineWriter& writer)
      : table_(table),
        options_(options),
        writer_(writer),
        classifier_(table.store()),
        names_(table.store().strings()),
        launch_("launch"),
        arrival_("last arrival") {
    for (size_t g = 0; g < args_.size(); ++g) {
      for (size_t s = 0; s < args_[g].size(); ++s) {
        args_[g][s] = {{{"group", Name(static_cast<WorkGroup>(g))},
                        {"source", Name(static_cast<EstimateSource>(s))}}};
      }
    }
    SetOrigins();
    Narrow();
  }

  void Write() {
    bool synthetic = false;
    for (RankIndex r = 0; r < table_.rank_count(); ++r) {
      synthetic |= Rank(r).info().synthetic;
      Predicted(r);
      WriteLaunchQueueCounter(table_, r, predicted_origin_, PredictedProcess(r), writer_);
      WriteCommunicationCounter(table_, r, predicted_origin_, PredictedProcess(r), writer_);
      if (r < options_.memory.size()) {
        WriteMemoryCounters(options_.memory[r], predicted_origin_, PredictedProcess(r), writer_);
      }
      if (options_.recorded && Rank(r).info().has_times) Recorded(r);
    }
    Arrivals();
    if (options_.path != nullptr) {
      const int32_t process = PredictedProcess(table_.rank_count());
      WriteCriticalPathTrack(table_, *options_.path, predicted_origin_, process, writer_);
    }
    WriteLinkCounters(options_.links, predicted_origin_, LinkProcess(), writer_);
    writer_.Metadata("producer", "foretrace");
    if (synthetic) writer_.Metadata("synthetic", "traces made by a generator, not measured");
    for (size_t i = 0; i < options_.notes.size(); ++i) {
      writer_.Metadata(fmt::format("note {}", i + 1), options_.notes[i]);
    }
  }

 private:
  const RankTrace& Rank(RankIndex r) const { return table_.store().ranks()[r]; }
  static int32_t PredictedProcess(RankIndex r) { return static_cast<int32_t>(2 * r + 1); }
  static int32_t RecordedProcess(RankIndex r) { return static_cast<int32_t>(2 * r + 2); }

  int32_t LinkProcess() const { return PredictedProcess(table_.rank_count()) + 1; }

  // Both runs are moved so that their alignment points meet and nothing is before zero.
  void SetOrigins() {
    SimTime first_predicted = SimTime::Max(), first_recorded = SimTime::Max();
    for (RankIndex r = 0; r < table_.rank_count(); ++r) {
      for (const ExecutedNode& e : table_.events(r)) {
        first_predicted = std::min(first_predicted, e.start);
      }
      const RankTrace& rank = Rank(r);
      for (uint32_t i = 0; i < rank.size(); ++i) {
        const NodeIndex n(i);
        if (!rank.has_duration(n)) continue;
        if (rank.info().has_times) first_recorded = std::min(first_recorded, rank.start(n));
        // Ranges are drawn where the CPU has come to, in traces without times too.
        if (options_.predicted_cpu_time && IsRange(rank.kind(n))) {
          first_predicted =
              std::min(first_predicted, options_.predicted_cpu_time(r, rank.start(n)));
        }
      }
    }
    if (first_predicted == SimTime::Max()) first_predicted = SimTime();
    if (first_recorded == SimTime::Max()) first_recorded = SimTime();
    SimTime predicted_mark = SimTime::Max(), recorded_mark = SimTime::Max();
    for (const std::vector<IterationWindow>& windows : options_.windows) {
      if (windows.empty()) continue;
      predicted_mark = std::min(predicted_mark, windows.front().predicted_start);
      recorded_mark = std::min(recorded_mark, windows.front().recorded_start);
    }
    if (predicted_mark == SimTime::Max()) {
      predicted_mark = first_predicted;
      recorded_mark = first_recorded;
    }
    const SimTime lead =
        std::max({SimTime(), predicted_mark - first_predicted, recorded_mark - first_recorded});
    predicted_origin_ = predicted_mark - lead;
    recorded_origin_ = recorded_mark - lead;
  }

  // What was asked for.
  void Narrow() {
    if (options_.ranks.empty() && options_.steps.empty()) return writer_.KeepAll();
    std::vector<TimelineFilter::Stretch> all;
    for (RankIndex r = 0; r < table_.rank_count(); ++r) {
      if (!options_.ranks.empty() && !options_.ranks.contains(Rank(r).info().rank)) continue;
      std::vector<TimelineFilter::Stretch> predicted, recorded;
      for (size_t w = 0; r < options_.windows.size() && w < options_.windows[r].size(); ++w) {
        const IterationWindow& window = options_.windows[r][w];
        if (!options_.steps.contains(window.number)) continue;
        predicted.emplace_back(window.predicted_start - predicted_origin_,
                               window.predicted_end - predicted_origin_);
        recorded.emplace_back(window.recorded_start - recorded_origin_,
                              window.recorded_end - recorded_origin_);
      }
      all.insert(all.end(), predicted.begin(), predicted.end());
      writer_.Keep(PredictedProcess(r), std::move(predicted));
      writer_.Keep(RecordedProcess(r), std::move(recorded));
    }
    writer_.Keep(LinkProcess(), all);
    writer_.Keep(PredictedProcess(table_.rank_count()), std::move(all));
  }

  void Begin(RankIndex r, int32_t process, bool recorded) {
    const RankInfo& info = Rank(r).info();
    writer_.Process(process,
                    fmt::format("rank {}{}{}", info.rank, recorded ? " (recorded)" : "",
                                info.synthetic ? " (synthetic trace)" : ""),
                    info.device_name, process);
  }

  void Predicted(RankIndex r) {
    const RankTrace& rank = Rank(r);
    ProcessRow row(rank, PredictedProcess(r), writer_);
    Begin(r, PredictedProcess(r), false);
    PredictedCpu(r, row);
    track_of_.resize(table_.rank_count());
    track_of_[r].assign(table_.events(r).size(), 0);
    const auto events = table_.events(r);
    for (size_t i = 0; i < events.size(); ++i) {
      if (IsDeviceKind(rank.kind(events[i].node))) track_of_[r][i] = Device(r, events[i], row);
    }
  }

  // Returns the thread id of the track.
  int32_t Device(RankIndex r, const ExecutedNode& e, ProcessRow& row) {
    const RankTrace& rank = Rank(r);
    const SimTime start = e.start - predicted_origin_;
    const SimTime active = e.active_start - predicted_origin_;
    const SimTime end = e.end - predicted_origin_;
    const std::optional<SimTime> idle_since = row.FreeAt(e.lane);
    const Track track = row.Place(e.lane, start, end);
    const bool typed = e.cause != WaitCause::kNone && e.cause != WaitCause::kProgramOrder;
    if (typed && idle_since.has_value() && *idle_since < start) {
      writer_.Slice(track, names_.Wait(e.cause), "wait", *idle_since, start);
    }
    const WorkGroup group = classifier_.Group(r, e.node);
    writer_.Slice(track, names_.Of(rank.name(e.node)), Category(rank.kind(e.node)), start, end,
                  args_[static_cast<size_t>(group)][static_cast<size_t>(e.source)]);
    if (active > start) {
      const bool busy = e.end_cause == WaitCause::kCommunicatorBusy;
      writer_.Slice(track, names_.Wait(busy ? e.end_cause : WaitCause::kCollectiveArrival), "wait",
                    start, active);
    }
    if (const ExecutedNode* call = table_.Find({r, rank.launcher(e.node)}); call != nullptr) {
      writer_.Flow(launch_, row.Base(call->lane), call->start - predicted_origin_, track, start);
    }
    return track.thread;
  }

  void PredictedCpu(RankIndex r, ProcessRow& row) {
    const RankTrace& rank = Rank(r);
    std::vector<CpuSlice> extents(rank.size(), {SimTime::Max(), SimTime::Min(), NodeIndex()});
    std::vector<std::vector<CpuSlice>> lanes(rank.lanes().size());
    for (uint32_t i = 0; i < rank.size() && options_.predicted_cpu_time; ++i) {
      const NodeIndex n(i);
      if (!IsRange(rank.kind(n)) || !rank.has_duration(n)) continue;
      extents[i].start = options_.predicted_cpu_time(r, rank.start(n));
      extents[i].end = options_.predicted_cpu_time(r, rank.end(n));
    }
    for (const ExecutedNode& e : table_.events(r)) {
      if (IsDeviceKind(rank.kind(e.node))) continue;
      extents[e.node.value] = {e.start, e.end, e.node};
      // Executed ops (symbolic traces run their CPU ops as nodes) are drawn as the ranges below.
      if (!IsRange(rank.kind(e.node))) lanes[e.lane].push_back({e.start, e.end, e.node});
      BlockedPart(e, lanes[e.lane]);
    }
    // Ranges hold what is nested in them: from the inside out, as parents come first.
    for (uint32_t i = rank.size(); i-- > 0;) {
      const NodeIndex n(i);
      const NodeKind kind = rank.kind(n);
      const NodeIndex parent = rank.parent(n);
      const CpuSlice& inner = extents[i];
      if (IsDeviceKind(kind) || inner.start == SimTime::Max()) continue;
      if (IsRange(kind)) lanes[rank.lane(n).value].push_back({inner.start, inner.end, n});
      // Only within a thread: a range may enclose calls of another one by dependence, not in time.
      if (!parent.valid() || parent.value >= i || rank.lane(parent) != rank.lane(n)) continue;
      CpuSlice& outer = extents[parent.value];
      outer.start = std::min(outer.start, inner.start);
      outer.end = std::max(outer.end, inner.end);
    }
    for (uint32_t l = 0; l < lanes.size(); ++l) {
      if (!lanes[l].empty()) WriteNested(rank, lanes[l], row.Base(l), predicted_origin_);
    }
  }

  static bool IsRange(NodeKind kind) {
    return kind == NodeKind::kCpuOp || kind == NodeKind::kAnnotation;
  }

  void BlockedPart(const ExecutedNode& e, std::vector<CpuSlice>& lane) const {
    if (e.end_cause == WaitCause::kNone) return;
    const ExecutedNode* awaited = table_.Find(e.end_binding);
    const SimTime until = awaited != nullptr ? std::clamp(awaited->end, e.start, e.end) : e.end;
    if (until > e.start) lane.push_back({e.start, until, NodeIndex(), e.end_cause});
  }

  // Slices that begin together: the longer one outside; of equal ones the earlier node; waits
  // within. What would stick out of the slice around it is cut.
  void WriteNested(const RankTrace& rank, std::vector<CpuSlice>& slices, Track track,
                   SimTime origin) {
    std::sort(slices.begin(), slices.end(), [](const CpuSlice& a, const CpuSlice& b) {
      if (a.start != b.start) return a.start < b.start;
      if (a.end != b.end) return a.end > b.end;
      return a.node < b.node;
    });
    std::vector<SimTime> open;
    for (const CpuSlice& slice : slices) {
      while (!open.empty() && open.back() <= slice.start) open.pop_back();
      const SimTime end = open.empty() ? slice.end : std::min(slice.end, open.back());
      const bool wait = !slice.node.valid();
      writer_.Slice(track, wait ? names_.Wait(slice.cause) : names_.Of(rank.name(slice.node)),
                    wait ? "wait" : Category(rank.kind(slice.node)), slice.start - origin,
                    end - origin);
      open.push_back(end);
    }
  }

  void Recorded(RankIndex r) {
    const RankTrace& rank = Rank(r);
    ProcessRow row(rank, RecordedProcess(r), writer_);
    Begin(r, RecordedProcess(r), true);
    std::vector<std::vector<CpuSlice>> lanes(rank.lanes().size());
    for (uint32_t i = 0; i < rank.size(); ++i) {
      const NodeIndex n(i);
      if (!rank.has_duration(n) || IsDeviceKind(rank.kind(n))) continue;
      lanes[rank.lane(n).value].push_back({rank.start(n), rank.end(n), n});
    }
    for (uint32_t l = 0; l < lanes.size(); ++l) {
      if (!lanes[l].empty()) WriteNested(rank, lanes[l], row.Base(l), recorded_origin_);
    }
    for (uint32_t i = 0; i < rank.size(); ++i) {
      const NodeIndex n(i);
      if (!rank.has_duration(n) || !IsDeviceKind(rank.kind(n))) continue;
      const SimTime start = rank.start(n) - recorded_origin_;
      const SimTime end = rank.end(n) - recorded_origin_;
      const Track track = row.Place(rank.lane(n).value, start, end);
      writer_.Slice(track, names_.Of(rank.name(n)), Category(rank.kind(n)), start, end);
      const NodeIndex call = rank.launcher(n);
      if (call.valid() && rank.has_duration(call)) {
        writer_.Flow(launch_, row.Base(rank.lane(call).value), rank.start(call) - recorded_origin_,
                     track, start);
      }
    }
  }

  // From the member that came last to each of the others.
  void Arrivals() {
    struct Member {
      uint32_t rendezvous;
      SimTime start;
      RankIndex rank;
      uint32_t position;
    };
    std::vector<Member> members;
    for (RankIndex r = 0; r < table_.rank_count(); ++r) {
      const auto events = table_.events(r);
      for (uint32_t i = 0; i < events.size(); ++i) {
        if (!IsCommunicationKind(Rank(r).kind(events[i].node))) continue;
        if (events[i].rendezvous != NodeEvent::kNoRendezvous) {
          members.push_back({events[i].rendezvous, events[i].start, r, i});
        } else if (const ExecutedNode* last = table_.Find(events[i].end_binding);
                   last != nullptr && events[i].active_start > events[i].start &&
                   IsCommunicationKind(Rank(events[i].end_binding.rank).kind(last->node))) {
          const RankIndex from = events[i].end_binding.rank;
          Arrow(from, static_cast<uint32_t>(last - table_.events(from).data()), r, i);
        }
      }
    }
    std::sort(members.begin(), members.end(), [](const Member& a, const Member& b) {
      if (a.rendezvous != b.rendezvous) return a.rendezvous < b.rendezvous;
      if (a.start != b.start) return a.start > b.start;
      return a.rank < b.rank;
    });
    for (size_t i = 0, last = 0; i < members.size(); ++i) {
      if (members[i].rendezvous != members[last].rendezvous) last = i;
      if (i != last) {
        Arrow(members[last].rank, members[last].position, members[i].rank, members[i].position);
      }
    }
  }

  void Arrow(RankIndex from, uint32_t from_position, RankIndex to, uint32_t to_position) {
    const ExecutedNode& a = table_.events(from)[from_position];
    const ExecutedNode& b = table_.events(to)[to_position];
    writer_.Flow(arrival_, {PredictedProcess(from), track_of_[from][from_position]},
                 a.active_start - predicted_origin_,
                 {PredictedProcess(to), track_of_[to][to_position]},
                 std::max(a.active_start, b.active_start) - predicted_origin_);
  }

  const EventTable& table_;
  const TimelineOptions& options_;
  TimelineFilter writer_;
  Classifier classifier_;
  TimelineNames names_;
  TimelineText launch_;
  TimelineText arrival_;
  SimTime predicted_origin_;
  SimTime recorded_origin_;
  // Group of work and source of duration, by both.
  std::array<std::array<std::array<TimelineArg, 2>, static_cast<size_t>(EstimateSource::kCount)>,
             static_cast<size_t>(WorkGroup::kCount)>
      args_;
  std::vector<std::vector<int32_t>> track_of_;  // thread id, by rank and position in the table
};

}  // namespace

void WriteTimeline(const EventTable& table, const TimelineOptions& options,
                   TimelineWriter& writer) {
  RunDrawer(table, options, writer).Write();
}

}  // namespace foretrace
