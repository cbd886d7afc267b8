#include "simulator/report/kineto_timeline.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "simulator/report/kineto_names.h"

namespace foretrace {
namespace {

using Track = TraceEventWriter::Track;

// Kineto gives devices the processes from 0 on.
constexpr int32_t kFirstProcess = 10000;
// A hostile name must not blow up the file by its repetitions.
constexpr size_t kLongestName = 1000;

// To the nearest, each end by itself. HTA cuts what is finer at both ends, a microsecond of every
// kernel (round_down_time_stamps).
SimTime WholeMicroseconds(SimTime time) {
  constexpr int64_t kPs = 1'000'000;
  return SimTime::FromPs((time.ps() + kPs / 2) / kPs * kPs);
}

struct Extent {
  SimTime start = SimTime::Max();
  SimTime end = SimTime::Min();
};

class KinetoWriter {
 public:
  KinetoWriter(const EventTable& table, RankIndex r, const KinetoTimelineOptions& options,
               TraceEventWriter& writer)
      : table_(table),
        store_(table.store()),
        rank_(store_.ranks()[r]),
        r_(r),
        options_(options),
        writer_(writer),
        process_(kFirstProcess + rank_.info().rank),
        extents_(rank_.size()),
        free_at_(rank_.lanes().size()) {
    for (uint32_t i = 0; i < rank_.size(); ++i) {
      const NodeIndex n(i);
      if (rank_.kind(n) == NodeKind::kRuntimeCall) call_of_id_.emplace(rank_.source_id(n), n);
    }
  }

  void Write() {
    origin_ = Origin();
    FindExtents();
    Rows();
    Steps();
    for (uint32_t l = 0; l < rank_.lanes().size(); ++l) Cpu(l);
    for (const ExecutedNode& e : table_.events(r_)) {
      if (IsDeviceKind(rank_.kind(e.node))) Device(e);
    }
  }

 private:
  // Ranks share one clock.
  SimTime Origin() const {
    SimTime first = SimTime::Max();
    for (RankIndex r = 0; r < table_.rank_count(); ++r) {
      for (const ExecutedNode& e : table_.events(r)) first = std::min(first, e.start);
      const RankTrace& rank = store_.ranks()[r];
      for (uint32_t i = 0; i < rank.size() && options_.predicted_cpu_time; ++i) {
        const NodeIndex n(i);
        if (IsDeviceKind(rank.kind(n)) || !rank.has_duration(n)) continue;
        first = std::min(first, options_.predicted_cpu_time(r, rank.start(n)));
      }
      if (r < options_.windows.size()) {
        for (const IterationWindow& w : options_.windows[r])
          first = std::min(first, w.predicted_start);
      }
    }
    return first == SimTime::Max() ? SimTime() : first;
  }

  // What is executed runs as predicted, other CPU work where the CPU then is; ranges hold what is
  // nested in them, from the inside out, as parents come first.
  void FindExtents() {
    for (const ExecutedNode& e : table_.events(r_)) extents_[e.node.value] = {e.start, e.end};
    for (uint32_t i = rank_.size(); i-- > 0;) {
      const NodeIndex n(i);
      if (IsDeviceKind(rank_.kind(n))) continue;
      Extent& own = extents_[i];
      if (own.start == SimTime::Max() || rank_.kind(n) != NodeKind::kRuntimeCall) Place(n, own);
      const NodeIndex parent = rank_.parent(n);
      if (own.start == SimTime::Max() || !parent.valid() || parent >= n) continue;
      if (rank_.lane(parent) != rank_.lane(n)) continue;
      Extent& outer = extents_[parent.value];
      outer.start = std::min(outer.start, own.start);
      outer.end = std::max(outer.end, own.end);
    }
  }

  void Place(NodeIndex n, Extent& own) const {
    if (!options_.predicted_cpu_time || !rank_.has_duration(n)) return;
    own.start = std::min(own.start, options_.predicted_cpu_time(r_, rank_.start(n)));
    own.end = std::max(own.end, options_.predicted_cpu_time(r_, rank_.end(n)));
  }

  Track TrackOf(uint32_t lane) const {
    const Lane& l = rank_.lane_at(LaneIndex(lane));
    const bool fits = l.id >= 0 && l.id <= std::numeric_limits<int32_t>::max();
    const int32_t thread = fits ? static_cast<int32_t>(l.id) : static_cast<int32_t>(lane) + 1;
    return l.kind == Lane::Kind::kStream ? Track{l.device, thread} : Track{process_, thread};
  }

  // Readers take a stream for a queue. Where work overlaps on one, as the transfers of symbolic
  // traces do, what begins later is put on a stream of its own.
  Track Place(uint32_t lane, SimTime start, SimTime end) {
    std::vector<SimTime>& free_at = free_at_[lane];
    size_t k = 0;
    while (k < free_at.size() && free_at[k] > start) ++k;
    if (k == free_at.size()) free_at.push_back(end);
    free_at[k] = end;
    Track track = TrackOf(lane);
    if (k == 0) return track;
    const auto [it, added] = further_streams_.try_emplace({lane, k}, next_stream_);
    track.thread = it->second;
    if (added) {
      ++next_stream_;
      writer_.Thread(track, fmt::format("{} ({})", rank_.lane_at(LaneIndex(lane)).label, k),
                     static_cast<int32_t>(lane));
    }
    return track;
  }

  void Rows() {
    for (uint32_t l = 0; l < rank_.lanes().size(); ++l) {
      constexpr int32_t kRoom = 1 << 20;
      if (rank_.lane_at(LaneIndex(l)).kind != Lane::Kind::kStream) continue;
      const int32_t last = std::numeric_limits<int32_t>::max() - kRoom;
      next_stream_ = std::max(next_stream_, std::min(TrackOf(l).thread, last) + 1);
    }
    const RankInfo& info = rank_.info();
    const std::string name = fmt::format("rank {} (predicted)", info.rank);
    writer_.Process(process_, name, "CPU", 0);
    for (uint32_t l = 0; l < rank_.lanes().size(); ++l) {
      const Lane& lane = rank_.lane_at(LaneIndex(l));
      writer_.Thread(TrackOf(l), lane.label, static_cast<int32_t>(l));
    }
  }

  bool Wanted(SimTime start) const {
    if (options_.steps.empty() || r_ >= options_.windows.size()) return true;
    return std::ranges::any_of(options_.windows[r_], [&](const IterationWindow& w) {
      return options_.steps.contains(w.number) && start >= w.predicted_start &&
             start < w.predicted_end;
    });
  }

  // `args`: a JSON object without its end.
  void Slice(Track track, std::string_view name, std::string_view category, Extent at,
             std::string args) {
    if (!Wanted(at.start)) return;
    const auto us = [](SimTime time) {
      return static_cast<double>((time.ps() + 500) / 1000) * 1e-3;
    };
    const SimTime start = at.start - origin_, end = at.end - origin_;
    args += fmt::format("{}\"foretrace.ts\":{:.3f},\"foretrace.dur\":{:.3f}}}",
                        args.size() > 1 ? "," : "", us(start), us(end) - us(start));
    writer_.SliceWithJson(track, TimelineText(name.substr(0, kLongestName)), category,
                          WholeMicroseconds(start), WholeMicroseconds(end), args);
  }

  // On the thread of the marks; where the recording has none, on the first.
  void Steps() {
    if (r_ >= options_.windows.size()) return;
    for (const IterationWindow& w : options_.windows[r_]) {
      Track track{process_, 1};
      for (uint32_t l = 0; l < rank_.lanes().size(); ++l) {
        if (rank_.lane_at(LaneIndex(l)).kind != Lane::Kind::kCpuThread) continue;
        track = TrackOf(l);
        break;
      }
      for (const IterationMark& mark : rank_.iterations()) {
        marks_.push_back(mark.node);
        if (mark.number == w.number) track = TrackOf(rank_.lane(mark.node).value);
      }
      Slice(track, fmt::format("ProfilerStep#{}", w.number), "user_annotation",
            {w.predicted_start, w.predicted_end}, "{");
    }
  }

  // Slices that begin together: the longer one outside. What would stick out of the slice around it
  // is cut.
  void Cpu(uint32_t lane) {
    if (rank_.lane_at(LaneIndex(lane)).kind != Lane::Kind::kCpuThread) return;
    std::vector<NodeIndex> nodes;
    for (uint32_t i = 0; i < rank_.size(); ++i) {
      const NodeIndex n(i);
      const bool mark = std::ranges::count(marks_, n) > 0;
      if (mark || rank_.lane(n).value != lane || extents_[i].start == SimTime::Max()) continue;
      nodes.push_back(n);
    }
    const auto at = [this](NodeIndex n) -> const Extent& { return extents_[n.value]; };
    std::sort(nodes.begin(), nodes.end(), [&](NodeIndex a, NodeIndex b) {
      if (at(a).start != at(b).start) return at(a).start < at(b).start;
      if (at(a).end != at(b).end) return at(a).end > at(b).end;
      return a < b;
    });
    std::vector<SimTime> open;
    for (const NodeIndex n : nodes) {
      Extent slice = at(n);
      while (!open.empty() && open.back() <= slice.start) open.pop_back();
      if (!open.empty()) slice.end = std::min(slice.end, open.back());
      Slice(TrackOf(lane), store_.name(rank_, n), KinetoCategory(rank_.kind(n)), slice, CpuArgs(n));
      if (rank_.sync(n) != nullptr) Sync(n, slice);
      open.push_back(slice.end);
    }
  }

  // The device's side of a call that names events or streams.
  void Sync(NodeIndex n, Extent slice) {
    const SyncAttr& sync = *rank_.sync(n);
    const int32_t device = sync.stream.valid() ? rank_.lane_at(sync.stream).device : 0;
    const auto stream = [this](LaneIndex l) { return l.valid() ? rank_.lane_at(l).id : -1; };
    const auto awaited = call_of_id_.find(static_cast<uint64_t>(sync.waits_for_correlation));
    const bool known = sync.waits_for_correlation >= 0 && awaited != call_of_id_.end();
    const std::string args = fmt::format(
        "{{\"device\":{},\"stream\":{},\"correlation\":{},\"wait_on_stream\":{},"
        "\"wait_on_cuda_event_record_corr_id\":{},\"wait_on_cuda_event_id\":{}",
        device, stream(sync.stream), Correlation(n), stream(sync.waits_for_stream),
        known ? Correlation(awaited->second) : -1, sync.event);
    const auto thread = static_cast<int32_t>(std::clamp<int64_t>(stream(sync.stream), 0, 1 << 30));
    Slice({device, thread}, "Stream Wait Event", "cuda_sync", {slice.end, slice.end}, args);
  }

  // Calls and what they issued share one; 0 means none to readers.
  static int64_t Correlation(NodeIndex call) { return int64_t{call.value} + 1; }

  // The operator that a call, or by its call a kernel, belongs to.
  int64_t ExternalId(NodeIndex n) const {
    for (NodeIndex p = n; p.valid(); p = rank_.parent(p)) {
      if (rank_.kind(p) == NodeKind::kCpuOp) return Correlation(p);
    }
    return 0;
  }

  std::string CpuArgs(NodeIndex n) const {
    std::string args = fmt::format("{{\"External id\":{}", ExternalId(n));
    if (rank_.kind(n) == NodeKind::kRuntimeCall)
      args += fmt::format(",\"correlation\":{}", Correlation(n));
    AddShapes(n, args);
    if (const ExecutedNode* e = table_.Find({r_, n});
        e != nullptr && e->end_cause != WaitCause::kNone) {
      args += fmt::format(",\"waited for\":\"{}\"", Name(e->end_cause));
    }
    return args;
  }

  void AddShapes(NodeIndex n, std::string& args) const {
    std::vector<std::string> dims, types;
    for (const Tensor& tensor : rank_.tensors(n)) {
      if (tensor.is_output) continue;
      dims.push_back(fmt::format("[{}]", fmt::join(rank_.dims(tensor), ",")));
      types.push_back(
          fmt::format("\"{}\"", tensor.dtype == DType::kUnknown ? "" : Name(tensor.dtype)));
    }
    if (dims.empty()) return;
    args += fmt::format(",\"Input Dims\":[{}],\"Input type\":[{}]", fmt::join(dims, ","),
                        fmt::join(types, ","));
  }

  void Device(const ExecutedNode& e) {
    const NodeIndex n = e.node;
    const Track track = Place(rank_.lane(n).value, e.start, e.end);
    const NodeIndex call = rank_.launcher(n);
    std::string args = fmt::format(
        "{{\"External id\":{},\"device\":{},\"stream\":{},\"correlation\":{},\"source\":\"{}\"",
        ExternalId(call.valid() ? call : rank_.parent(n)), track.process, track.thread,
        call.valid() ? Correlation(call) : Correlation(n), Name(e.source));
    if (e.cause != WaitCause::kNone && e.cause != WaitCause::kProgramOrder) {
      args += fmt::format(",\"waited for\":\"{}\"", Name(e.cause));
    }
    if (e.active_start > e.start) {
      args += fmt::format(",\"waited us\":{:.3f}", (e.active_start - e.start).us());
    }
    const NodeKind kind = rank_.kind(n);
    std::string name(store_.name(rank_, n));
    if (IsCommunicationKind(kind)) {
      const bool known = name.starts_with("nccl") && name.find("Kernel") != std::string::npos;
      if (!known) name = fmt::format("{} {}", KinetoKernel(kind, rank_.collective_op(n)), name);
      AddCommunication(n, args);
    } else if (const WorkAttr* work = rank_.work(n); work != nullptr && kind != NodeKind::kKernel) {
      args += fmt::format(",\"bytes\":{}", work->bytes.count());
    }
    if (rank_.waves_milli(n) > 0) {
      args += fmt::format(",\"foretrace.waves\":{}", rank_.waves_milli(n));
    }
    if (const LaunchAttr* launch = rank_.launch(n)) {
      args += fmt::format(",\"grid\":[{}],\"block\":[{}]", fmt::join(launch->grid, ","),
                          fmt::join(launch->block, ","));
    }
    Slice(track, name, KinetoCategory(kind), {e.start, e.end}, args);
  }

  void AddCommunication(NodeIndex n, std::string& args) const {
    const CommAttr* comm = rank_.comm(n);
    if (comm == nullptr) return;
    const NodeKind kind = rank_.kind(n);
    const std::string_view what = kind == NodeKind::kSend   ? "send"
                                  : kind == NodeKind::kRecv ? "recv"
                                                            : Name(rank_.collective_op(n));
    const bool typed = ElementSize(comm->dtype) > 0;
    const int64_t size = typed ? ElementSize(comm->dtype) : 1;
    args += fmt::format(
        ",\"Collective name\":\"{}\",\"dtype\":\"{}\",\"In msg nelems\":{},\"Out msg nelems\":{}",
        what, typed ? Name(comm->dtype) : "uint8",
        (kind == NodeKind::kRecv ? comm->bytes_out : comm->bytes_in).count() / size,
        (kind == NodeKind::kSend ? comm->bytes_in : comm->bytes_out).count() / size);
    if (comm->group_size > 0) args += fmt::format(",\"Group size\":{}", comm->group_size);
    if (comm->sequence >= 0) args += fmt::format(",\"Seq\":{}", comm->sequence);
    if (comm->group.valid()) {
      const TimelineText group(store_.strings().Get(comm->group));
      args += fmt::format(",\"Process Group Name\":{}", group.literal());
    }
    if (comm->peer >= 0) {
      const std::string_view key = kind == NodeKind::kSend   ? "Dst Rank"
                                   : kind == NodeKind::kRecv ? "Src Rank"
                                                             : "Root Rank";
      args += fmt::format(",\"{}\":{}", key, comm->peer);
    }
    const auto splits = [&](std::string_view key, std::span<const int64_t> bytes) {
      if (bytes.empty()) return;
      std::vector<int64_t> elements;
      for (const int64_t b : bytes) elements.push_back(b / size);
      args += fmt::format(",\"{}\":\"[{}]\"", key, fmt::join(elements, ", "));
    };
    splits("In split size", rank_.in_splits(*comm));
    splits("Out split size", rank_.out_splits(*comm));
  }

  const EventTable& table_;
  const TraceStore& store_;
  const RankTrace& rank_;
  const RankIndex r_;
  const KinetoTimelineOptions& options_;
  TraceEventWriter& writer_;
  const int32_t process_;
  std::vector<Extent> extents_;
  std::vector<NodeIndex> marks_;
  absl::flat_hash_map<uint64_t, NodeIndex> call_of_id_;
  std::vector<std::vector<SimTime>> free_at_;  // by lane and stream that it has
  std::map<std::pair<uint32_t, size_t>, int32_t> further_streams_;
  int32_t next_stream_ = 1;
  SimTime origin_;
};

}  // namespace

void WriteKinetoTimeline(const EventTable& table, RankIndex rank,
                         const KinetoTimelineOptions& options, TraceEventWriter& writer) {
  KinetoWriter(table, rank, options, writer).Write();
}

}  // namespace foretrace
