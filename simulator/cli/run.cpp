#include "simulator/cli/run.h"

#include <map>

#include "simulator/base/error.h"

namespace foretrace {
namespace {

// "aten::foo x12, bar x3 and 4 more names"
std::string CountNames(const TraceStore& store, const std::vector<NodeRef>& nodes) {
  std::map<std::string, int64_t> counts;
  for (const NodeRef& ref : nodes) {
    const RankTrace& rank = store.ranks()[ref.rank];
    ++counts[std::string(store.name(rank, ref.node).substr(0, 60))];
  }
  std::string text;
  int listed = 0;
  for (const auto& [name, count] : counts) {
    if (listed == 3) {
      text += fmt::format(" and {} more names", counts.size() - 3);
      break;
    }
    text += fmt::format("{}{} x{}", listed++ ? ", " : "", name, count);
  }
  return text;
}

}  // namespace

std::vector<std::vector<IterationWindow>> Windows(const Prediction& prediction) {
  std::vector<std::vector<IterationWindow>> windows;
  for (const PredictedRank& rank : prediction.ranks) {
    windows.emplace_back();
    for (const PredictedIteration& it : rank.iterations) {
      windows.back().push_back(
          {it.number, it.predicted_start, it.predicted_end, it.recorded_start, it.recorded_end});
    }
  }
  return windows;
}

std::vector<std::string> RunNotes(const TraceStore& store, const Prediction& prediction,
                                  const SimulationSetup& setup) {
  std::vector<std::string> notes = setup.notes();
  const CompiledJob& job = prediction.job;
  for (const RankTrace& rank : store.ranks()) {
    if (!rank.info().synthetic) continue;
    notes.push_back("synthetic traces: made by a generator, not measured");
    break;
  }
  if (job.recorded_collectives > 0) {
    notes.push_back(fmt::format(
        "{} of {} ranks have a trace; {} collectives with absent members keep their recorded "
        "durations, waiting included",
        store.ranks().size(), store.world_size(), job.recorded_collectives));
  }
  int64_t unexplained = 0;
  int64_t unlaunched = 0;
  for (const RankCompileReport& report : job.reports) {
    unexplained += report.unexplained_blocks;
    unlaunched += report.unlaunched_device_nodes;
  }
  if (unexplained > 0) {
    notes.push_back(
        fmt::format("{} blocking calls waited for something that the traces do not "
                    "show; that waiting is left out where an op around the call bounds it, "
                    "and counts as CPU overhead elsewhere",
                    unexplained));
  }
  if (unlaunched > 0 && !job.symbolic) {
    notes.push_back(
        fmt::format("{} pieces of device work have no launch in the traces (in flight "
                    "when recording began); they keep their recorded start gaps",
                    unlaunched));
  }
  if (job.communicators.outside_window > 0) {
    notes.push_back(
        fmt::format("{} communication operations at the edges of the recording have "
                    "no partner in it",
                    job.communicators.outside_window));
  }
  if (!job.missing.empty()) {
    notes.push_back(fmt::format("{} nodes have no duration from any model and count as zero: {}",
                                job.missing.size(), CountNames(store, job.missing)));
  }
  return notes;
}

absl::Status CheckMissing(const TraceStore& store, const Prediction& prediction, bool strict) {
  const std::vector<NodeRef>& missing = prediction.job.missing;
  if (!strict || missing.empty()) return absl::OkStatus();
  return InvalidInput("--strict: {} nodes have no duration from any model ({}), first {}",
                      missing.size(), CountNames(store, missing),
                      Describe(store, store.ranks()[missing.front().rank], missing.front().node));
}

}  // namespace foretrace
