#include "simulator/replay/replay_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "simulator/base/status_macros.h"
#include "simulator/base/utf8.h"
#include "simulator/replay/run.h"

namespace foretrace {
bool ReplaysRecording(const SimulationSetup& setup) {
  const CompileOptions& options = setup.compile();
  return options.semantics == Semantics::kFull && options.rank_sync && options.stream_sync &&
         options.cpu && options.blocking && options.contention && !options.aligned_start &&
         !setup.models_durations() && !setup.retargets() && !options.model_communication &&
         options.overheads == nullptr;
}

std::string DescribeCall(const TraceStore& store, const RankTrace& rank, NodeIndex call) {
  std::string text = Excerpt(store.name(rank, call), 60);
  if (const NodeIndex op = rank.parent(call); op.valid()) {
    text += " in " + Excerpt(store.name(rank, op), 60);
  }
  return text + fmt::format(" of rank {}", rank.info().rank);
}

namespace {

constexpr double kStepDiffers = 0.05;
// Steps that hardly began differ by what a clock resolves.
constexpr SimTime kStepDiffersBy = SimTime::FromNs(50'000);
constexpr double kUnresolvedShare = 0.01;

struct WorstStep {
  size_t rank = 0;
  PredictedIteration step;
  double error = 0;  // relative, with sign
};

WorstStep FindWorstStep(const Prediction& prediction) {
  WorstStep worst;
  for (size_t r = 0; r < prediction.ranks.size(); ++r) {
    for (const PredictedIteration& it : prediction.ranks[r].iterations) {
      const SimTime recorded = it.recorded_end - it.recorded_start;
      const SimTime difference = it.predicted_end - it.predicted_start - recorded;
      if (recorded <= SimTime() || std::max(difference, -difference) < kStepDiffersBy) continue;
      const double error = difference.us() / recorded.us();
      if (std::abs(error) > std::abs(worst.error)) worst = {r, it, error};
    }
  }
  return worst;
}

struct Unresolved {
  int64_t waits = 0;
  SimTime time;
  double share = 0;  // of the recorded steps of the rank that has most
  size_t rank = 0;
  const HeldWait* longest = nullptr;
};

Unresolved FindUnresolved(const Prediction& prediction) {
  Unresolved most;
  for (size_t r = 0; r < prediction.ranks.size(); ++r) {
    const RankCompileReport& report = prediction.job.reports[r];
    Unresolved own;
    own.rank = r;
    own.waits = report.unexplained_blocks + static_cast<int64_t>(report.sync.held.size());
    own.time = report.unexplained_time;
    for (const HeldWait& held : report.sync.held) {
      own.time += held.time;
      if (own.longest == nullptr || held.time > own.longest->time) own.longest = &held;
    }
    SimTime recorded;
    for (const PredictedIteration& it : prediction.ranks[r].iterations) {
      recorded += it.recorded_end - it.recorded_start;
    }
    if (recorded > SimTime()) own.share = own.time.us() / recorded.us();
    if (own.share > most.share) most = own;
  }
  return most;
}

std::string Ms(SimTime time) { return fmt::format("{:.3f} ms", time.us() * 1e-3); }

std::string DescribeUnresolved(const TraceStore& store, const Unresolved& unresolved) {
  const RankTrace& rank = store.ranks()[unresolved.rank];
  std::string text =
      fmt::format("{} waits of rank {} for {} that nothing in the recording explains",
                  unresolved.waits, rank.info().rank, Ms(unresolved.time));
  if (unresolved.longest != nullptr) {
    text += fmt::format(" (the longest stream wait: {}, {})",
                        DescribeCall(store, rank, unresolved.longest->call),
                        Ms(unresolved.longest->time));
  }
  return text;
}

std::optional<std::string> Doubt(const TraceStore& store, const Prediction& unchanged) {
  const WorstStep worst = FindWorstStep(unchanged);
  const Unresolved unresolved = FindUnresolved(unchanged);
  const bool differs = std::abs(worst.error) > kStepDiffers;
  if (!differs && unresolved.share <= kUnresolvedShare) return std::nullopt;
  std::string text = "this replay has not understood the job: ";
  if (differs) {
    text += fmt::format(
        "replayed unchanged, step {} of rank {} takes {} instead of the recorded {} "
        "({:+.1f} %)",
        worst.step.number, store.ranks()[worst.rank].info().rank,
        Ms(worst.step.predicted_end - worst.step.predicted_start),
        Ms(worst.step.recorded_end - worst.step.recorded_start), 100 * worst.error);
  }
  if (unresolved.waits > 0) {
    text += (differs ? "; " : "") + DescribeUnresolved(store, unresolved);
  } else {
    text += "; no wait stands out";
  }
  return text;
}

}  // namespace

absl::StatusOr<std::optional<std::string>> DoubtOfReplay(const TraceStore& store,
                                                         const SimulationSetup& setup,
                                                         const Prediction& prediction,
                                                         const Prediction* unedited) {
  if (prediction.job.symbolic) return std::nullopt;
  if (ReplaysRecording(setup)) {
    if (setup.what_if().empty()) return Doubt(store, prediction);
    if (unedited != nullptr) return Doubt(store, *unedited);
  }
  if (setup.retargets() && unedited != nullptr) return Doubt(store, *unedited);
  FORETRACE_ASSIGN_OR_RETURN(const Prediction unchanged,
                             Predict(store, AsRecorded(setup), nullptr));
  return Doubt(store, unchanged);
}

std::vector<std::string> WaitNotes(const TraceStore& store, const Prediction& prediction) {
  std::vector<std::string> notes;
  int64_t blocks = 0;
  int64_t waits = 0;
  SimTime blocked, held, kept;
  const HeldWait* first = nullptr;
  const RankTrace* first_rank = nullptr;
  for (size_t r = 0; r < prediction.job.reports.size(); ++r) {
    const RankCompileReport& report = prediction.job.reports[r];
    blocks += report.unexplained_blocks;
    blocked += report.unexplained_time;
    for (const HeldWait& h : report.sync.held) ++waits, held += h.time;
    for (const HeldWait& h : report.sync.after_unrecorded) {
      kept += h.time;
      if (first != nullptr) continue;
      first = &h;
      first_rank = &store.ranks()[r];
    }
  }
  if (blocks > 0) {
    notes.push_back(fmt::format(
        "{} blocking calls waited for something that the traces do not show, {} in all; that "
        "waiting "
        "is left out where an op around the call bounds it, and counts as CPU overhead elsewhere",
        blocks, Ms(blocked)));
  }
  if (waits > 0) {
    notes.push_back(fmt::format(
        "{} stream waits held work up for {} longer than anything in the traces explains; that "
        "waiting is left out",
        waits, Ms(held)));
  }
  if (first != nullptr) {
    notes.push_back(fmt::format(
        "{} was waited for work of before the recording, first by {}{}; it is kept as recorded",
        Ms(kept), DescribeCall(store, *first_rank, first->call),
        first->held == first->call
            ? std::string()
            : fmt::format(" ({})", Excerpt(store.name(*first_rank, first->held), 60))));
  }
  return notes;
}

}  // namespace foretrace
