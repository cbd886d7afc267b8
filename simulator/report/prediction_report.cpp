#include "simulator/report/prediction_report.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include <fmt/ranges.h>

#include "simulator/base/check.h"
#include "simulator/base/error.h"

namespace foretrace {
namespace {

// Ops whose source of durations is listed.
constexpr size_t kMaxDurationOps = 100;

using WindowsByNumber = std::map<int64_t, std::vector<IterationWindow>>;

// Iterations that all ranks have, each with one window per rank.
WindowsByNumber CommonIterations(std::span<const std::vector<IterationWindow>> windows) {
  WindowsByNumber common;
  for (size_t r = 0; r < windows.size(); ++r) {
    for (const IterationWindow& window : windows[r]) {
      std::vector<IterationWindow>& ranks = common[window.number];
      if (ranks.size() == r) ranks.push_back(window);
    }
  }
  std::erase_if(common, [&](const auto& entry) { return entry.second.size() != windows.size(); });
  return common;
}

IterationSummary Summarize(int64_t number, std::span<const IterationWindow> windows) {
  IterationSummary summary;
  summary.number = number;
  for (RankIndex r = 0; r < windows.size(); ++r) {
    if (windows[r].predicted() > summary.predicted) {
      summary.predicted = windows[r].predicted();
      summary.slowest = r;
    }
    summary.recorded = std::max(summary.recorded, windows[r].recorded());
  }
  return summary;
}

// Numbers of the iterations in which a device of any rank starts work.
std::set<int64_t> IterationsWithWork(const EventTable& table, const WindowsByNumber& common) {
  std::set<int64_t> works;
  for (RankIndex r = 0; r < table.rank_count(); ++r) {
    std::vector<std::pair<SimTime, int64_t>> ends;  // of this rank's windows
    for (const auto& [number, ranks] : common) ends.emplace_back(ranks[r].predicted_end, number);
    std::sort(ends.begin(), ends.end());
    for (const ExecutedNode& event : table.events(r)) {
      if (!IsDeviceKind(table.store().ranks()[r].kind(event.node))) continue;
      const auto window =
          std::upper_bound(ends.begin(), ends.end(), event.start,
                           [](SimTime start, const auto& entry) { return start < entry.first; });
      if (window == ends.end()) continue;
      if (event.start >= common.at(window->second)[r].predicted_start) works.insert(window->second);
    }
  }
  return works;
}

int64_t RepresentativeIteration(const EventTable& table, const WindowsByNumber& common,
                                std::vector<IterationSummary> iterations) {
  if (iterations.size() == 1) return iterations.front().number;
  const std::set<int64_t> works = IterationsWithWork(table, common);
  if (!works.empty()) {
    std::erase_if(iterations, [&](const auto& i) { return !works.contains(i.number); });
  }
  std::stable_sort(iterations.begin(), iterations.end(),
                   [](const auto& a, const auto& b) { return a.predicted < b.predicted; });
  return iterations[(iterations.size() - 1) / 2].number;
}

// The first rank that shares no iteration with rank 0, for people; empty where each shares some.
std::string RankApart(const EventTable& table,
                      std::span<const std::vector<IterationWindow>> windows) {
  for (size_t r = 1; r < windows.size(); ++r) {
    const bool shares = std::ranges::any_of(windows[r], [&](const IterationWindow& w) {
      return std::ranges::any_of(
          windows[0], [&](const IterationWindow& first) { return first.number == w.number; });
    });
    if (shares) continue;
    return fmt::format(" ({} has none of its: it lacks marks of steps, or is of other steps)",
                       table.store().ranks()[r].info().source);
  }
  return {};
}

}  // namespace

std::string_view Words(StepWindow window) {
  return window == StepWindow::kCompletions ? "from one completion to the next"
                                            : "from its begin mark until its work is done";
}

std::array<double, static_cast<size_t>(EstimateSource::kCount)> PredictionReport::SourceShares()
    const {
  std::array<double, static_cast<size_t>(EstimateSource::kCount)> shares{};
  for (size_t i = 0; i < shares.size(); ++i) {
    shares[i] = Share(critical_path.by_source[i], critical_path.total);
  }
  return shares;
}

absl::StatusOr<PredictionReport> BuildPredictionReport(
    const EventTable& table, std::span<const std::vector<IterationWindow>> windows,
    const ReportOptions& options) {
  FORETRACE_CHECK(windows.size() == table.rank_count());
  const WindowsByNumber common = CommonIterations(windows);
  if (common.empty()) {
    return InvalidInput("{}: no iteration that all {} ranks have{}; nothing to report on",
                        table.store().ranks()[0].info().source, windows.size(),
                        RankApart(table, windows));
  }
  PredictionReport report;
  for (const auto& [number, ranks] : common) {
    report.iterations.push_back(Summarize(number, ranks));
    const auto unedited = options.unedited.find(number);
    if (unedited != options.unedited.end()) report.iterations.back().unedited = unedited->second;
  }
  report.iteration = options.iteration.has_value()
                         ? *options.iteration
                         : RepresentativeIteration(table, common, report.iterations);
  const auto reported = common.find(report.iteration);
  if (reported == common.end()) {
    std::vector<int64_t> numbers;
    for (const auto& [number, ranks] : common) numbers.push_back(number);
    return InvalidInput("iteration {} is not in the traces of all ranks; they have {}",
                        report.iteration, fmt::join(numbers, ", "));
  }
  const std::span<const IterationWindow> marks(reported->second);
  if (options.completions.size() == marks.size()) report.window = options.window;
  const std::span<const IterationWindow> chosen =
      report.by_completion() ? std::span(options.completions) : marks;
  const IterationSummary summary = Summarize(report.iteration, marks);
  report.iteration_time = summary.predicted;
  report.recorded_time = summary.recorded;

  const Classifier classifier(table.store());
  report.streams = ComputeBreakdown(table, classifier, chosen);
  report.ranks = ComputeRankSummaries(table, report.streams, chosen, marks);
  report.baseline = Baseline(report.ranks);
  report.overlap = ComputeOverlap(table, chosen);
  report.device_time = ComputeDeviceTime(table, chosen);
  report.communicators =
      ComputeCommunicators(table, classifier, chosen, options.communicator_names);
  report.critical_path = ComputeCriticalPath(table, classifier, chosen);
  report.top = ComputeTopOps(table, classifier, chosen, options.top);
  report.durations = ComputeDurationSources(table, classifier, chosen, kMaxDurationOps);
  for (const RankTrace& rank : table.store().ranks()) report.synthetic |= rank.info().synthetic;
  report.notes = options.notes;
  report.doubt = options.doubt;
  report.step = options.step;
  report.causes = options.causes;
  report.causes_by_completion = options.causes_by_completion;
  report.sensitivity = options.sensitivity;
  report.absent = options.absent;
  report.unshown = options.unshown;
  report.scale_out = options.scale_out;
  report.what_if = options.what_if;
  return report;
}

}  // namespace foretrace
