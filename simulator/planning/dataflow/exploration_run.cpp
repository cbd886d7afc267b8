#include "simulator/planning/dataflow/exploration_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/planning/files/journaled_runner.h"

namespace foretrace {
namespace {

using dataflow::Point;
using dataflow::PointResult;
using dataflow::Space;

// Sorted as the points are, up to a billion of them.
std::string KeyOf(size_t point) { return fmt::format("{:09}", point); }

}  // namespace

absl::StatusOr<std::vector<PointResult>> Explore(const Space& space,
                                                 const std::vector<Point>& points,
                                                 const ExplorationRun& run,
                                                 const Processes& processes,
                                                 const CommandContext& context) {
  std::optional<LineJournal> journal;
  if (!run.journal.empty()) {
    FORETRACE_ASSIGN_OR_RETURN(
        LineJournal opened,
        LineJournal::Open(run.journal,
                          {"exploration journal 4", run.question, "space, accelerators"},
                          processes));
    journal.emplace(std::move(opened));
  }
  // Asked to stop, processes finish their batch.
  const ThreadRunner threads(run.jobs);
  const JournaledRunner runner(threads, processes, journal.has_value() ? &*journal : nullptr);
  const size_t most = threads.threads() * static_cast<size_t>(processes.size()) * 8;
  std::vector<PointResult> results(points.size());
  for (size_t first = 0; first < points.size();) {
    const size_t end = std::min(first + most, points.size());
    std::vector<std::string> keys;
    for (size_t i = first; i < end; ++i) keys.push_back(KeyOf(i));
    FORETRACE_ASSIGN_OR_RETURN(
        const std::vector<std::string> answers,
        runner.Run(keys, [&](size_t i, size_t) -> absl::StatusOr<std::string> {
          FORETRACE_ASSIGN_OR_RETURN(const PointResult r, EvaluatePoint(space, points[first + i]));
          return Encode(r);
        }));
    for (size_t i = first; i < end; ++i) {
      if (Decode(answers[i - first], results[i])) continue;
      return InvalidInput("{}: point {} is no result; remove its line, or the file to start anew",
                          run.journal, i);
    }
    first = end;
    if (processes.rank() == 0) {
      context.console->Progress("points", static_cast<int64_t>(end),
                                static_cast<int64_t>(points.size()));
    }
    if (processes.Any(context.stop.stop_requested()) && end < points.size()) {
      return absl::CancelledError(
          fmt::format("interrupted after {} of {} points", end, points.size()));
    }
  }
  return results;
}

}  // namespace foretrace
