#include "simulator/report/report_json.h"

#include <string_view>

#include "simulator/report/report_fields.h"
#include "simulator/report/step_json.h"
#include "simulator/trace/serving_step.h"

namespace foretrace {
namespace {

class ReportWriter : private ReportFields {
 public:
  ReportWriter(const PredictionReport& report, const TraceStore& store, JsonWriter& json)
      : ReportFields(store, json), report_(report) {}

  void Members() {
    Int("iteration", report_.iteration);
    Time("iteration_time_us", report_.iteration_time);
    Recorded(report_.recorded_time);
    Time("step_time_us", report_.step.has_value() ? report_.step->period : report_.iteration_time);
    Time("baseline_us", report_.baseline);
    Key("by_completion");
    json_.Bool(report_.by_completion());
    WriteStepMembers(report_, store_, json_);
    Key("reliable");
    // Null: there is no recorded time to judge it by.
    if (report_.recorded_time > SimTime() || report_.doubt.has_value()) {
      json_.Bool(!report_.doubt.has_value());
    } else {
      json_.Null();
    }
    Key("doubt");
    report_.doubt.has_value() ? Text(*report_.doubt) : static_cast<void>(json_.Null());
    Key("synthetic");
    json_.Bool(report_.synthetic);
    List("notes", report_.notes, [this](const std::string& note) { Text(note); });
    List("iterations", report_.iterations, [this](const IterationSummary& i) {
      Object([&] {
        Int("number", i.number);
        if (const auto phase = PhaseOfStep(store_, i.number)) String("phase", Name(*phase));
        Time("iteration_time_us", i.predicted);
        Recorded(i.recorded);
        Known("unedited_iteration_time_us", i.unedited);
        Rank("slowest_rank", i.slowest);
      });
    });
    List("ranks", report_.ranks, [this](const RankSummary& rank) { WriteRank(rank); });
    Key("sources");
    Object([&] {
      const auto shares = report_.SourceShares();
      for (size_t i = 0; i < shares.size(); ++i) {
        Number(Name(static_cast<EstimateSource>(i)), shares[i]);
      }
    });
    Durations();
    List("communicators", report_.communicators,
         [this](const CommunicatorSummary& c) { Communicator(c); });
    Path();
    List("top_kernels", report_.top.kernels, [this](const TopEntry& entry) { Top(entry); });
    List("top_ops", report_.top.ops, [this](const TopEntry& entry) { Top(entry); });
  }

 private:
  void WriteRank(const RankSummary& rank) {
    const OverlapSummary& overlap = report_.overlap[rank.rank];
    Object([&] {
      Rank("rank", rank.rank);
      Time("iteration_time_us", rank.marks.predicted());
      Recorded(rank.marks.recorded());
      Number("blocked_share", rank.blocked_share());
      Time("window_us", rank.window.predicted());
      Known("recorded_window_us", rank.window.recorded());
      Time("busy_us", rank.busy);
      Time("idle_us", rank.idle);
      Time("computation_us", overlap.computation);
      Time("communication_us", overlap.communication);
      Time("transfer_us", overlap.transfer);
      Time("exposed_communication_us", overlap.exposed);
      Time("exposed_transfer_us", overlap.exposed_transfer);
      Number("overlapped_share", overlap.overlapped_share());
      Device(report_.device_time[rank.rank]);
      Key("streams");
      json_.StartArray();
      for (const StreamBreakdown& stream : report_.streams) {
        if (stream.rank == rank.rank) Stream(stream, rank.window.predicted());
      }
      json_.EndArray();
    });
  }

  // Times in which exactly these kinds of work run.
  void Device(const DeviceTime& time) {
    constexpr const char* kKeys[] = {"idle_us",
                                     "computation_us",
                                     "communication_us",
                                     "computation_communication_us",
                                     "memory_us",
                                     "computation_memory_us",
                                     "communication_memory_us",
                                     "all_us"};
    Key("device");
    Object([&] {
      Time("span_us", time.span);
      for (size_t kinds = 0; kinds < time.by_kinds.size(); ++kinds) {
        Time(kKeys[kinds], time.by_kinds[kinds]);
      }
      List("gaps", time.gaps, [&](const DeviceTime::Gaps& gaps) {
        Object([&] {
          Lane("stream", time.rank, gaps.lane);
          Time("host_us", gaps.host);
          Time("kernel_us", gaps.kernel);
          Time("other_us", gaps.other);
        });
      });
    });
  }

  void Stream(const StreamBreakdown& stream, SimTime window) {
    Object([&] {
      Lane("stream", stream.rank, stream.lane);
      Int("nodes", static_cast<int64_t>(stream.nodes));
      Number("busy_share", Share(stream.busy(), window));
      Times<WorkGroup>("work_us", stream.work);
      Times<WaitCause>("idle_us", stream.idle);
    });
  }

  void Durations() {
    const DurationSources& durations = report_.durations;
    Key("durations");
    Object([&] {
      Time("device_us", durations.device_time);
      Times<EstimateSource>("sources_us", durations.by_source);
      Time("extrapolated_us", durations.extrapolated);
      Int("missing_count", durations.missing);
      Time("missing_recorded_us", durations.missing_recorded);
      Number("extrapolated_path_share",
             Share(report_.critical_path.extrapolated, report_.critical_path.total));
      Int("ops_count", durations.ops);
      List("ops", durations.entries, [this](const DurationEntry& entry) {
        Object([&] {
          String("name", store_.strings().Get(entry.name));
          String("source", Name(entry.source));
          Key("extrapolated");
          json_.Bool(entry.extrapolated);
          Int("count", entry.count);
          Time("predicted_us", entry.predicted);
          Time("recorded_us", entry.recorded);
          Number("share", entry.share);
        });
      });
    });
  }

  void Communicator(const CommunicatorSummary& c) {
    Object([&] {
      Key("group");
      c.name.empty() ? static_cast<void>(json_.Null()) : Text(c.name);
      Key("declared");
      json_.Bool(!store_.strings().Get(c.group).empty());
      String("operation", Name(c.operation));
      Int("members", c.members);
      Int("count", c.count);
      Int("bytes", c.bytes.count());
      Time("transfer_us", c.transfer);
      Time("wait_us", c.wait);
      Time("worst_wait_us", c.worst_wait);
      Rank("worst_rank", c.worst_rank);
      Time("worst_rank_wait_us", c.worst_rank_wait);
      List("latecomers", c.latecomers, [this](const Latecomer& l) {
        Object([&] {
          Rank("rank", l.rank);
          Int("times_last", l.times_last);
          Time("caused_wait_us", l.caused_wait);
        });
      });
    });
  }

  void Path() {
    const CriticalPath& path = report_.critical_path;
    Key("critical_path");
    Object([&] {
      Rank("rank", path.end_rank);
      Time("total_us", path.total);
      Times<PathActivity>("activities_us", path.by_activity);
      Times<WorkGroup>("groups_us", path.by_group);
      Key("ranks_us");
      json_.StartArray();
      for (RankIndex r = 0; r < path.by_rank.size(); ++r) {
        if (path.by_rank[r] == SimTime()) continue;
        Object([&] {
          Rank("rank", r);
          Time("time_us", path.by_rank[r]);
        });
      }
      json_.EndArray();
      const SimTime origin = path.runs.empty() ? SimTime() : path.runs.front().start;
      List("runs", path.runs, [&](const PathRun& run) { Run(run, origin); });
    });
  }

  void Run(const PathRun& run, SimTime origin) {
    Object([&] {
      Rank("rank", run.rank);
      Lane("lane", run.rank, run.lane);
      String("kind", Name(run.kind));
      Key("group");
      run.group == WorkGroup::kCount ? static_cast<void>(json_.Null()) : Text(Name(run.group));
      String("name", store_.strings().Get(run.name));
      Int("nodes", run.nodes);
      Time("start_us", run.start - origin);
      Time("time_us", run.time());
      Time("latency_us", run.latency);
    });
  }

  void Top(const TopEntry& entry) {
    Object([&] {
      String("name", store_.strings().Get(entry.name));
      Int("count", entry.count);
      Time("time_us", entry.time);
      Number("share", entry.share);
    });
  }

  const PredictionReport& report_;
};

}  // namespace

void WriteReportMembers(const PredictionReport& report, const TraceStore& store, JsonWriter& json) {
  ReportWriter(report, store, json).Members();
}

std::string ReportJson(const PredictionReport& report, const TraceStore& store) {
  rapidjson::StringBuffer buffer;
  JsonWriter json(buffer);
  json.StartObject();
  WriteReportMembers(report, store, json);
  json.EndObject();
  return {buffer.GetString(), buffer.GetSize()};
}

}  // namespace foretrace
