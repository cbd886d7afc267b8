#include "simulator/report/text_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "simulator/base/counted.h"
#include "simulator/report/headline.h"
#include "simulator/report/time_unit.h"

namespace foretrace {
namespace {

using Align = TextTable::Align;
using Column = TextTable::Column;

std::string Percent(double share) { return fmt::format("{:.1f}", share * 100); }

class ReportPrinter {
 public:
  ReportPrinter(const PredictionReport& report, const TraceStore& store,
                const TextReportOptions& options)
      : report_(report), store_(store), options_(options), unit_(Longest(report)) {
    for (RankIndex r = 0; r < report.ranks.size(); ++r) shown_.push_back(r);
    if (shown_.size() > options.max_ranks) {
      std::stable_sort(shown_.begin(), shown_.end(), [&](RankIndex a, RankIndex b) {
        return report.ranks[a].window.predicted() > report.ranks[b].window.predicted();
      });
      shown_.resize(options.max_ranks);
      std::sort(shown_.begin(), shown_.end());
    }
  }

  std::string Print() {
    out_ += Headline(report_, store_, options_.style, unit_);
    Causes();
    Sensitivity();
    Iterations();
    Ranks();
    Streams();
    Communicators();
    Path();
    WeakDurations();
    Top("Kernels by device time, all ranks", report_.top.kernels);
    Top("Framework ops by device time, all ranks", report_.top.ops);
    return std::move(out_);
  }

 private:
  int32_t RankNumber(RankIndex rank) const { return store_.ranks()[rank].info().rank; }
  std::string Lane(RankIndex rank, LaneIndex lane) const {
    return lane.valid() ? store_.ranks()[rank].lane_at(lane).label : "-";
  }
  // Of the times that are printed, sums over ranks included.
  static SimTime Longest(const PredictionReport& report) {
    SimTime longest = std::max(report.iteration_time, report.recorded_time);
    for (const TopEntry& entry : report.top.kernels) longest = std::max(longest, entry.time);
    for (const TopEntry& entry : report.top.ops) longest = std::max(longest, entry.time);
    for (const CommunicatorSummary& c : report.communicators) longest = std::max(longest, c.wait);
    return longest;
  }
  std::string Time(SimTime time) const { return unit_.Number(time); }
  std::string WithUnit(std::string_view heading) const {
    return fmt::format("{} {}", heading, unit_.name());
  }
  void Heading(std::string_view text) {
    const std::string wrapped = Wrapped(text, options_.style.width, 0, 2);
    out_ += options_.style.colour ? fmt::format("\n\x1b[1m{}\x1b[0m\n", wrapped)
                                  : fmt::format("\n{}\n", wrapped);
  }
  void Print(std::string_view heading, const TextTable& table) {
    if (table.empty()) return;
    Heading(heading);
    out_ += table.Format(options_.style);
  }
  void More(size_t all, size_t shown, std::string_view what) {
    if (all > shown) out_ += fmt::format("... and {} more {}\n", all - shown, what);
  }

  // Where the difference of a what-if comes from.
  void Causes() {
    TextTable table({{WithUnit("before")},
                     {WithUnit("after")},
                     {WithUnit("difference")},
                     {"", Align::kLeft, true}});
    SimTime difference;
    for (const StepCause& cause : report_.causes) difference += cause.difference();
    for (size_t i = 0; i < std::min(options_.max_top, report_.causes.size()); ++i) {
      const StepCause& cause = report_.causes[i];
      table.AddRow(
          {Time(cause.before), Time(cause.after), unit_.Signed(cause.difference()), cause.what});
    }
    Print(fmt::format("Where the difference of {} {} comes from (along the critical paths{})",
                      unit_.Signed(difference), unit_.name(),
                      report_.causes_by_completion
                          ? fmt::format(", {}", Words(StepWindow::kCompletions))
                          : std::string()),
          table);
    if (!table.empty()) More(report_.causes.size(), options_.max_top, "causes");
  }

  void Sensitivity() {
    TextTable table({{"kind", Align::kLeft},
                     {WithUnit("gain")},
                     {"gain %"},
                     {"per unit"},
                     {WithUnit("a step:")},
                     {"count"},
                     {"name", Align::kLeft, true}});
    const SimTime step = report_.step.has_value() ? report_.step->period : report_.iteration_time;
    const size_t shown = std::min(report_.sensitivity.size(), 3 * options_.max_top);
    for (size_t i = 0; i < shown; ++i) {
      const SensitivityRow& row = report_.sensitivity[i];
      table.AddRow({row.kind, Time(row.gain),
                    fmt::format("{:.1f}", 100 * row.gain.us() / step.us()),
                    fmt::format("{:.2f}", row.cost), Time(row.time), fmt::format("{}", row.count),
                    row.name});
    }
    Print(
        "What the step owes to what (gain: without it; per unit: what one more of it costs the "
        "step)",
        table);
    More(report_.sensitivity.size(), shown, "with less to gain");
  }

  // Ops whose durations do not come from a model within its range.
  void WeakDurations() {
    TextTable table({{"source", Align::kLeft},
                     {"%"},
                     {WithUnit("predicted")},
                     {WithUnit("recorded")},
                     {"count"},
                     {"op", Align::kLeft, true}});
    size_t all = 0, shown = 0;
    for (const DurationEntry& entry : report_.durations.entries) {
      const bool calibrated = entry.source == EstimateSource::kCalibrated;
      if (calibrated && !entry.extrapolated) continue;
      ++all;
      if (shown == options_.max_top) continue;
      ++shown;
      table.AddRow({calibrated ? "extrapolated" : std::string(Name(entry.source)),
                    Percent(entry.share), Time(entry.predicted),
                    entry.recorded > SimTime() ? Time(entry.recorded) : "-",
                    fmt::format("{}", entry.count), std::string(store_.strings().Get(entry.name))});
    }
    Print(
        "Ops not within a calibrated range, all ranks (% of device time; of recorded time where "
        "missing)",
        table);
    More(all, shown, "ops");
  }

  void Iterations() {
    if (report_.iterations.size() < 2) return;
    const bool what_if = report_.what_if;
    TextTable table({{"iteration"},
                     {WithUnit("predicted")},
                     {WithUnit(what_if ? "unedited" : "recorded")},
                     {what_if ? "change %" : "error %"},
                     {"slowest rank"}});
    for (const IterationSummary& i : report_.iterations) {
      const SimTime other = what_if ? i.unedited : i.recorded;
      const bool known = other > SimTime();
      table.AddRow({IterationLabel(store_, i.number), Time(i.predicted), known ? Time(other) : "-",
                    known ? fmt::format("{:+.2f}", (Share(i.predicted, other) - 1) * 100) : "-",
                    fmt::format("{}", RankNumber(i.slowest))});
    }
    Print("Iterations (the slowest rank of each)", table);
  }

  void Ranks() {
    TextTable table({{"rank"},
                     {"predicted"},
                     {"recorded"},
                     {"error %"},
                     {"blocked %"},
                     {"busy %"},
                     {"comm"},
                     {"exposed"},
                     {"transfer"},
                     {"hidden %"}});
    for (RankIndex r : shown_) {
      const RankSummary& rank = report_.ranks[r];
      const OverlapSummary& overlap = report_.overlap[r];
      const SimTime predicted = rank.window.predicted(), recorded = rank.window.recorded();
      const bool known = recorded > SimTime();
      const bool communicates = overlap.communication > SimTime();
      const auto of_communication = [&](const std::string& text) {
        return communicates ? text : std::string("-");
      };
      table.AddRow({fmt::format("{}", RankNumber(r)), Time(predicted), known ? Time(recorded) : "-",
                    known && !report_.what_if
                        ? fmt::format("{:+.2f}", (Share(predicted, recorded) - 1) * 100)
                        : "-",
                    Percent(rank.blocked_share()), Percent(Share(rank.busy, predicted)),
                    of_communication(Time(overlap.communication)),
                    of_communication(Time(overlap.exposed)),
                    of_communication(Time(overlap.exposed_transfer)),
                    of_communication(Percent(overlap.overlapped_share()))});
    }
    Print(fmt::format("Ranks, {}{} (exposed: communication while nothing is computed; transfer: "
                      "without waiting{})",
                      unit_.name(),
                      report_.by_completion() ? fmt::format(", {}", Words(report_.window)) : "",
                      report_.by_completion() ? "; blocked: of the time between the marks" : ""),
          table);
    More(report_.ranks.size(), shown_.size(), "ranks, all faster");
  }

  static constexpr std::string_view kNothing = "0.0";
  std::string Part(const StreamBreakdown& stream, SimTime time) const {
    return Percent(Share(time, report_.ranks[stream.rank].window.predicted()));
  }

  // One table of the enumerators that some shown stream spends time on.
  template <typename Enum, typename Times>
  void StreamTable(std::string_view heading, Times times_of) {
    constexpr auto kCount = static_cast<size_t>(Enum::kCount);
    std::vector<size_t> used;
    for (size_t i = 0; i < kCount; ++i) {
      const auto spends = [&](const StreamBreakdown& s) {
        return Shown(s.rank) && Part(s, times_of(s)[i]) != kNothing;
      };
      if (std::any_of(report_.streams.begin(), report_.streams.end(), spends)) used.push_back(i);
    }
    std::vector<Column> columns = {{"rank"}, {"stream", Align::kLeft}};
    for (size_t i : used) columns.push_back({std::string(Name(static_cast<Enum>(i)))});
    for (Column& column : columns) Abbreviate(column.heading);
    TextTable table(columns);
    size_t quiet = 0;
    for (const StreamBreakdown& s : report_.streams) {
      if (!Shown(s.rank)) continue;
      std::vector<std::string> row = {fmt::format("{}", RankNumber(s.rank)), Lane(s.rank, s.lane)};
      bool any = false;
      for (size_t i : used) {
        row.push_back(Part(s, times_of(s)[i]));
        any = any || row.back() != kNothing;
      }
      any ? table.AddRow(std::move(row)) : static_cast<void>(++quiet);
    }
    Print(heading, table);
    if (quiet > 0)
      out_ += fmt::format("... and {} of less than 0.05 % each\n", Counted(quiet, "stream"));
  }

  static void Abbreviate(std::string& heading) {
    static constexpr std::pair<std::string_view, std::string_view> kShort[] = {
        {"embedding", "emb"},     {"convolution", "conv"}, {"attention", "attn"},
        {"forward", "fwd"},       {"backward", "bwd"},     {"collective", "coll"},
        {"program_order", "gap"}, {"none", "no work"}};
    for (const auto& [word, abbreviation] : kShort) {
      const size_t at = heading.find(word);
      if (at != std::string::npos) heading.replace(at, word.size(), abbreviation);
    }
    std::replace(heading.begin(), heading.end(), '_', ' ');
  }

  bool Shown(RankIndex rank) const {
    return std::binary_search(shown_.begin(), shown_.end(), rank);
  }

  void Streams() {
    const std::string_view whole =
        report_.by_completion() ? Words(report_.window) : "of the iteration";
    StreamTable<WorkGroup>(fmt::format("Streams: work, % {}", whole),
                           [](const StreamBreakdown& s) { return s.work; });
    StreamTable<WaitCause>(
        fmt::format("Streams: idle by what the next node waited for, % {}", whole),
        [](const StreamBreakdown& s) { return s.idle; });
  }

  void Communicators() {
    TextTable table({{"group", Align::kLeft, true},
                     {"operation", Align::kLeft},
                     {"members"},
                     {"count"},
                     {"MB"},
                     {"transfer"},
                     {"wait"},
                     {"worst"},
                     {"came last", Align::kLeft, true}});
    const size_t shown = std::min(options_.max_communicators, report_.communicators.size());
    for (size_t i = 0; i < shown; ++i) {
      const CommunicatorSummary& c = report_.communicators[i];
      std::string last;
      for (size_t k = 0; k < std::min<size_t>(3, c.latecomers.size()); ++k) {
        const Latecomer& l = c.latecomers[k];
        last += fmt::format("{}{} ({}, {})", k > 0 ? ", " : "", RankNumber(l.rank), l.times_last,
                            Time(l.caused_wait));
      }
      table.AddRow({c.name.empty() ? "(not declared)" : c.name, std::string(Name(c.operation)),
                    fmt::format("{}", c.members), fmt::format("{}", c.count),
                    fmt::format("{:.2f}", static_cast<double>(c.bytes.count()) * 1e-6),
                    Time(c.transfer), Time(c.wait), Time(c.worst_wait), last});
    }
    Print(fmt::format("Communicators, {}: wait is summed over members, worst is one member in one "
                      "operation; came last: which rank (times, wait caused)",
                      unit_.name()),
          table);
    More(report_.communicators.size(), shown, "communicators");
  }

  void Path() {
    const CriticalPath& path = report_.critical_path;
    TextTable activities({{"activity", Align::kLeft}, {std::string(unit_.name())}, {"%"}});
    for (size_t i = 0; i < path.by_activity.size(); ++i) {
      if (path.by_activity[i] == SimTime()) continue;
      activities.AddRow({std::string(Name(static_cast<PathActivity>(i))), Time(path.by_activity[i]),
                         Percent(Share(path.by_activity[i], path.total))});
    }
    Print(fmt::format("Critical path of rank {}: {} in {} over {}", RankNumber(path.end_rank),
                      unit_.Text(path.total), Counted(path.runs.size(), "run"),
                      Counted(std::count_if(path.by_rank.begin(), path.by_rank.end(),
                                            [](SimTime t) { return t > SimTime(); }),
                              "rank")),
          activities);
    const std::vector<PathRun> longest = LongestRuns(path, options_.max_path_runs);
    TextTable runs({{"rank"},
                    {"lane", Align::kLeft, true},
                    {"kind", Align::kLeft},
                    {"nodes"},
                    {"start"},
                    {std::string(unit_.name())},
                    {"latency"},
                    {"%"},
                    {"mostly", Align::kLeft, true}});
    for (const PathRun& run : longest) {
      const std::string group =
          run.group == WorkGroup::kCount ? "" : fmt::format("{}: ", Name(run.group));
      runs.AddRow({fmt::format("{}", RankNumber(run.rank)), Lane(run.rank, run.lane),
                   std::string(Name(run.kind)), fmt::format("{}", run.nodes),
                   Time(run.start - path.runs.front().start), Time(run.time()), Time(run.latency),
                   Percent(Share(run.time(), path.total)),
                   fmt::format("{}{}", group, store_.strings().Get(run.name))});
    }
    Print("Its longest runs", runs);
    More(path.runs.size(), longest.size(), "runs");
  }

  void Top(std::string_view heading, const std::vector<TopEntry>& entries) {
    TextTable table({{std::string(unit_.name())}, {"%"}, {"count"}, {"name", Align::kLeft, true}});
    for (size_t i = 0; i < std::min(options_.max_top, entries.size()); ++i) {
      const TopEntry& entry = entries[i];
      const std::string_view name = store_.strings().Get(entry.name);
      table.AddRow({Time(entry.time), Percent(entry.share), fmt::format("{}", entry.count),
                    name.empty() ? "(no op known)" : std::string(name)});
    }
    Print(heading, table);
  }

  const PredictionReport& report_;
  const TraceStore& store_;
  const TextReportOptions& options_;
  TimeUnit unit_;
  std::vector<RankIndex> shown_;  // ascending
  std::string out_;
};

}  // namespace

std::string TextReport(const PredictionReport& report, const TraceStore& store,
                       const TextReportOptions& options) {
  return ReportPrinter(report, store, options).Print();
}

}  // namespace foretrace
