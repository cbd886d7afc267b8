#include "simulator/report/headline.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "simulator/trace/serving_step.h"

namespace foretrace {
namespace {

std::string Percent(double share) { return fmt::format("{:.1f} %", share * 100); }

class HeadlinePrinter {
 public:
  HeadlinePrinter(const PredictionReport& report, const TraceStore& store, const TextStyle& style,
                  const TimeUnit& unit)
      : report_(report), store_(store), style_(style), unit_(unit) {}

  std::string Print() {
    if (report_.doubt.has_value()) Line(fmt::format("NOT RELIABLE: {}", *report_.doubt));
    if (report_.synthetic) Line("SYNTHETIC traces: made by a generator, not measured.");
    Verdict();
    Why();
    RestsOn();
    Iteration();
    Step();
    if (report_.scale_out.has_value()) ScaleOut(*report_.scale_out);
    if (report_.absent.has_value()) Absent(*report_.absent);
    for (const std::string& note : report_.notes) Line(fmt::format("Note: {}", note));
    return std::move(out_);
  }

 private:
  // Continued lines are indented below the first, which keeps its own indentation.
  void Line(std::string_view text) {
    const size_t indent = text.find_first_not_of(' ');
    out_ += std::string(indent, ' ') + Wrapped(text, style_.width, indent, indent + 2) + "\n";
  }

  // What follows a time: the one that it is to be compared with.
  std::string Beside(SimTime predicted, SimTime recorded, SimTime unedited) const {
    if (unedited > SimTime()) {
      return fmt::format(", {} without the change ({})", unit_.Text(unedited),
                         PercentChange(predicted, unedited));
    }
    if (report_.what_if || recorded <= SimTime()) return "";
    return fmt::format(", {} recorded ({})", unit_.Text(recorded),
                       PercentChange(predicted, recorded));
  }

  SimTime Unedited() const {
    for (const IterationSummary& i : report_.iterations) {
      if (i.number == report_.iteration) return i.unedited;
    }
    return SimTime();
  }

  void Verdict() {
    std::string text;
    if (report_.step.has_value()) {
      const StepSummary& step = *report_.step;
      text = fmt::format("Verdict: a step in steady state takes {}{}", unit_.Text(step.period),
                         Beside(step.period, step.recorded_period, step.unedited_period));
    } else {
      text = fmt::format("Verdict: the iteration takes {}{}", unit_.Text(report_.iteration_time),
                         Beside(report_.iteration_time, report_.recorded_time, Unedited()));
    }
    if (report_.recorded_time == SimTime()) text += "; no recorded time judges it";
    text += Uncovered() + Supposed();
    Line(text);
  }

  std::string OfWindow() const {
    return report_.by_completion() ? fmt::format(", {},", Words(report_.window)) : "";
  }

  // Where what stands in for ranks without a trace moves a changed step by over a hundredth.
  std::string Supposed() const {
    if (!report_.absent.has_value() || !report_.what_if) return "";
    const AbsentInterval& a = *report_.absent;
    if (a.upper() - a.lower() <= a.lower().ScaledBy(0.01)) return "";
    return fmt::format("; ranks without a trace leave iteration {}{} between {} and {} (--absent)",
                       report_.iteration, OfWindow(), unit_.Number(a.lower()),
                       unit_.Text(a.upper()));
  }

  // Work that counts as zero, where it may be a hundredth of the device's.
  std::string Uncovered() const {
    const DurationSources& d = report_.durations;
    const double share = Share(d.missing_recorded, d.device_time + d.missing_recorded);
    if (d.missing == 0 || (report_.recorded_time > SimTime() && share < 0.01)) return "";
    return fmt::format("; {} nodes of device work that no model covers count as zero", d.missing);
  }

  void Why() {
    const CriticalPath& path = report_.critical_path;
    std::vector<std::pair<SimTime, PathActivity>> largest;
    for (size_t i = 0; i < path.by_activity.size(); ++i) {
      largest.emplace_back(path.by_activity[i], static_cast<PathActivity>(i));
    }
    std::ranges::stable_sort(largest,
                             [](const auto& a, const auto& b) { return a.first > b.first; });
    std::string text;
    for (size_t i = 0; i < std::min<size_t>(2, largest.size()); ++i) {
      const double share = Share(largest[i].first, path.total);
      if (share < 0.0005) break;
      text += fmt::format("{}{} {}", i > 0 ? ", " : "", Name(largest[i].second), Percent(share));
    }
    if (text.empty()) return;
    Line(fmt::format("Why: the critical path is {}{}", text, AwaitedRank()));
  }

  // Whom the others wait for most.
  std::string AwaitedRank() const {
    std::map<RankIndex, SimTime> caused;
    for (const CommunicatorSummary& c : report_.communicators) {
      for (const Latecomer& l : c.latecomers) caused[l.rank] += l.caused_wait;
    }
    const auto most = std::ranges::max_element(
        caused, [](const auto& a, const auto& b) { return a.second < b.second; });
    if (most == caused.end() || most->second == SimTime()) return "";
    return fmt::format("; ranks wait longest for rank {} ({} in all)",
                       store_.ranks()[most->first].info().rank, unit_.Text(most->second));
  }

  void RestsOn() {
    std::string text;
    const auto shares = report_.SourceShares();
    for (size_t i = 0; i < shares.size(); ++i) {
      if (shares[i] < 0.0005) continue;
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", Name(static_cast<EstimateSource>(i)),
                          Percent(shares[i]));
    }
    if (!text.empty()) Line("Rests on: " + text + " of the critical path");
    const DurationSources& d = report_.durations;
    if (d.all_recorded()) return;
    text = "Device time by source:";
    for (size_t i = 0; i < d.by_source.size(); ++i) {
      const auto source = static_cast<EstimateSource>(i);
      if (source == EstimateSource::kMissing) continue;
      text += fmt::format(" {} {},", Name(source), Percent(Share(d.by_source[i], d.device_time)));
    }
    text += fmt::format(" extrapolated {}; missing {} nodes",
                        Percent(Share(d.extrapolated, d.device_time)), d.missing);
    if (d.missing > 0) text += fmt::format(", recorded as {}", unit_.Text(d.missing_recorded));
    Line(text);
  }

  void Iteration() {
    Line(fmt::format("Iteration {}: {} predicted{}; baseline (busiest stream) {}",
                     IterationLabel(store_, report_.iteration), unit_.Text(report_.iteration_time),
                     Beside(report_.iteration_time, report_.recorded_time, Unedited()),
                     unit_.Text(report_.baseline)));
  }

  void Step() {
    if (!report_.step.has_value()) return;
    const StepSummary& step = *report_.step;
    const std::string how =
        step.settled ? "until it settles"
                     : fmt::format("{} times, of which the mean of {} counts as it does not settle",
                                   step.copies, step.copies / 2);
    Line(fmt::format(
        "  repeated {}, {} from end mark to end mark; its device work is done after {}{}", how,
        unit_.Text(step.cpu_period), unit_.Text(step.completion),
        Beside(step.completion, step.recorded_completion, SimTime())));
  }

  // Between which times the iteration lies, and what that rests on.
  void Absent(const AbsentInterval& a) {
    std::string text = fmt::format(
        "  iteration {}{} between {} and {}, by what stands in for ranks without a trace ({}) in "
        "{} "
        "rendezvous (communicators: {}): {} never last, {} alike, ",
        report_.iteration, OfWindow(), unit_.Number(a.lower()), unit_.Text(a.upper()), a.absent,
        a.rendezvous, a.communicators, unit_.Text(a.never_last), unit_.Text(a.alike));
    if (report_.what_if) {
      text += fmt::format(
          "{} alike and changed likewise, {} as early and {} as late as recorded waiting allows, ",
          unit_.Text(a.changed_alike), unit_.Text(a.earliest), unit_.Text(a.latest));
    }
    Line(text + fmt::format("{} as recorded", unit_.Text(a.as_recorded)));
  }

  // Between which times the step lies on more ranks, and what grew.
  void ScaleOut(const ScaleOutSummary& s) {
    std::string because = fmt::format("when the last of them comes ({} to {})",
                                      unit_.Number(s.last_at_hand), unit_.Text(s.last_late));
    if (s.absent_upper > SimTime()) {
      because += fmt::format(", what stands in for ranks without a trace ({} to {})",
                             unit_.Number(s.absent_lower), unit_.Text(s.absent_upper));
    }
    if (s.replay_error > 0) {
      because += fmt::format(", and that the replay misses the recorded step by {:.2f} %",
                             100 * s.replay_error);
    }
    Line(fmt::format("  on {} ranks between {} and {}, by {}", s.ranks, unit_.Number(s.lower),
                     unit_.Text(s.upper), because));
    if (s.supposed_slowdown > 0) {
      std::vector<std::string_view> groups;
      for (const ScaleOutSummary::Group& g : s.groups) {
        if (g.supposed) groups.push_back(g.communicator);
      }
      Line(fmt::format(
          "  the ranks at hand show no spread in communicator {}: the upper end supposes that "
          "the slowest takes {:.0f} % longer between collectives, the most by which GPUs of one "
          "cluster differ in published measurements; two recorded ranks of each group show their "
          "own",
          fmt::join(groups, ", "), 100 * s.supposed_slowdown));
    }
    for (const ScaleOutSummary::Group& g : s.groups) {
      std::string transfers;
      if (g.transfers_before > SimTime()) {
        transfers = fmt::format(" take x{:.2f};", Share(g.transfers_after, g.transfers_before));
      }
      Line(
          fmt::format("  communicator {}, {} -> {} ranks: its {} collectives{} their last rank "
                      "comes {} later on average",
                      g.communicator, g.from, g.to, g.rendezvous, transfers,
                      unit_.Text(g.later.ScaledBy(1.0 / static_cast<double>(g.rendezvous)))));
    }
    if (s.optimizer_before > SimTime()) {
      Line(fmt::format("  the optimizer is sharded: its work on the device takes x{:.2f}",
                       Share(s.optimizer_after, s.optimizer_before)));
    }
  }

  const PredictionReport& report_;
  const TraceStore& store_;
  const TextStyle& style_;
  const TimeUnit& unit_;
  std::string out_;
};

}  // namespace

std::string Headline(const PredictionReport& report, const TraceStore& store,
                     const TextStyle& style, const TimeUnit& unit) {
  return HeadlinePrinter(report, store, style, unit).Print();
}

std::string IterationLabel(const TraceStore& store, int64_t number) {
  const auto phase = PhaseOfStep(store, number);
  return phase ? fmt::format("{} ({})", number, Name(*phase)) : fmt::format("{}", number);
}

std::string PercentChange(SimTime to, SimTime from) {
  return fmt::format("{:+.2f} %", (Share(to, from) - 1) * 100);
}

}  // namespace foretrace
