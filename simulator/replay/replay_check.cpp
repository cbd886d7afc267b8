#include "simulator/replay/replay_check.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <utility>
#include <vector>

#include "simulator/base/counted.h"
#include "simulator/base/status_macros.h"
#include "simulator/base/utf8.h"
#include "simulator/engine/step_times.h"
#include "simulator/reconstruct/end_spread.h"
#include "simulator/replay/run.h"

namespace foretrace {
bool ReplaysRecording(const SimulationSetup& setup) {
  const CompileOptions& options = setup.compile();
  return options.semantics == Semantics::kFull && setup.left_out().empty() &&
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
constexpr double kGuessedShare = 0.05;
constexpr double kLostShare = 0.01;  // of a rank's device time, or launches

// A step that its replay does not repeat, by one of the definitions of docs/semantics.md, "Steps".
struct WorstStep {
  enum class Of : uint8_t { kMarks, kCompletion, kPeriod };
  size_t rank = 0;
  int64_t number = 0;
  Of of = Of::kMarks;
  SimTime predicted, recorded;
  double error = 0;  // relative, with sign

  void Consider(const WorstStep& step) {
    const SimTime difference = step.predicted - step.recorded;
    if (step.recorded <= SimTime() || std::max(difference, -difference) < kStepDiffersBy) return;
    const double relative = difference.us() / step.recorded.us();
    if (std::abs(relative) <= std::abs(error)) return;
    *this = step;
    error = relative;
  }
};

// Where the CPU runs ahead of its device, its own time between marks says nothing of how well the
// device was understood; when its work is done does.
WorstStep FindWorstStep(const TraceStore& store, const Prediction& prediction) {
  WorstStep worst;
  const auto measured = MeasureSteps(store, prediction);
  for (size_t r = 0; r < prediction.ranks.size(); ++r) {
    const std::vector<PredictedIteration>& iterations = prediction.ranks[r].iterations;
    for (const PredictedIteration& it : iterations) {
      worst.Consider({r, it.number, WorstStep::Of::kMarks, it.predicted_end - it.predicted_start,
                      it.recorded_end - it.recorded_start});
    }
    for (size_t s = 0; s < measured[r].size(); ++s) {
      const MeasuredStep& step = measured[r][s];
      if (iterations[s].partial) continue;
      worst.Consider({r, step.number, WorstStep::Of::kCompletion, step.predicted.completion,
                      step.recorded.completion});
      if (!step.predicted.period.has_value() || iterations[s - 1].partial) continue;
      worst.Consider(
          {r, step.number, WorstStep::Of::kPeriod, *step.predicted.period, *step.recorded.period});
    }
  }
  return worst;
}

SimTime RecordedSteps(const PredictedRank& rank) {
  SimTime recorded;
  for (const PredictedIteration& it : rank.iterations) {
    recorded += it.recorded_end - it.recorded_start;
  }
  return recorded;
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
    const SimTime recorded = RecordedSteps(prediction.ranks[r]);
    if (recorded > SimTime()) own.share = own.time.us() / recorded.us();
    if (own.share > most.share) most = own;
  }
  return most;
}

// Communicators that were inferred from when kernels end: what their kernels take after the last
// arrival differs from time to time by what the inferred partners do not explain.
struct Guessed {
  size_t rank = 0;
  SimTime time;
  double share = 0;  // of the recorded steps of the rank that has most
};

Guessed FindGuessed(const Prediction& prediction) {
  const CommunicatorMap& map = prediction.job.communicators;
  const Program& program = prediction.job.program;
  std::map<std::pair<uint32_t, uint32_t>, std::vector<int64_t>> own;  // by communicator, rank
  for (size_t i = 0; i < std::min(map.rendezvous.size(), program.rendezvous.size()); ++i) {
    const uint32_t communicator = map.rendezvous[i].communicator;
    const MatchedCommunicator& c = map.communicators[communicator];
    if (c.declared || c.matched_by != MatchedBy::kEnds) continue;
    for (const RendezvousProgram::Member& m : program.rendezvous[i].members) {
      own[{communicator, m.rank}].push_back(program.ranks[m.rank].items[m.item].duration.ps());
    }
  }
  std::map<uint32_t, SimTime> by_rank;
  for (const auto& [key, parts] : own) {
    const int64_t median = Median(parts).ps();
    for (const int64_t part : parts)
      by_rank[key.second] += SimTime::FromPs(std::abs(part - median));
  }
  Guessed most;
  for (const auto& [rank, time] : by_rank) {
    const SimTime recorded = RecordedSteps(prediction.ranks[rank]);
    if (recorded <= SimTime() || time.us() / recorded.us() <= most.share) continue;
    most = {rank, time, time.us() / recorded.us()};
  }
  return most;
}

// What is missing amid a recording: launches of device work, and device work of launches. What was
// in flight when it began or ended is missing at its edges and does not count.
struct Lost {
  size_t rank = 0;
  SimTime unlaunched;  // device work
  SimTime device;      // all of it
  int64_t without_work = 0;
  int64_t launches = 0;
  double share() const {
    const double of_work = device > SimTime() ? unlaunched.us() / device.us() : 0;
    const double of_launches =
        launches > 0 ? static_cast<double>(without_work) / static_cast<double>(launches) : 0;
    return std::max(of_work, of_launches);
  }
};

Lost FindLost(const RankTrace& rank) {
  Lost lost;
  std::vector<bool> issues(rank.size(), false), launched(rank.lanes().size(), false);
  NodeIndex first, last;  // launch whose work is there
  for (uint32_t i = 0; i < rank.size(); ++i) {
    const NodeIndex n(i);
    if (!IsDeviceKind(rank.kind(n)) || !rank.has_duration(n)) continue;
    lost.device += rank.duration(n);
    const NodeIndex call = rank.launcher(n);
    if (call.valid()) {
      issues[call.value] = launched[rank.lane(n).value] = true;
      if (!first.valid() || call < first) first = call;
      if (!last.valid() || last < call) last = call;
    } else if (launched[rank.lane(n).value]) {
      lost.unlaunched += rank.duration(n);
    }
  }
  // Where no launch has its work, nothing was cut off at the edges.
  if (!first.valid()) {
    lost.unlaunched = lost.device;
    if (rank.size() == 0) return lost;
    first = NodeIndex(0);
    last = NodeIndex(static_cast<uint32_t>(rank.size() - 1));
  }
  for (uint32_t i = first.value; i <= last.value; ++i) {
    const NodeIndex n(i);
    if (rank.kind(n) != NodeKind::kRuntimeCall) continue;
    const RuntimeCall call = rank.runtime_call(n);
    if (call != RuntimeCall::kLaunchKernel && call != RuntimeCall::kGraphLaunch) continue;
    ++lost.launches;
    lost.without_work += issues[i] ? 0 : 1;
  }
  return lost;
}

Lost FindMostLost(const TraceStore& store) {
  Lost most;
  for (size_t r = 0; r < store.ranks().size(); ++r) {
    Lost lost = FindLost(store.ranks()[r]);
    lost.rank = r;
    if (lost.share() > most.share()) most = lost;
  }
  return most;
}

std::string DescribeLost(const TraceStore& store, const Lost& lost) {
  const int32_t rank = store.ranks()[lost.rank].info().rank;
  std::string text;
  if (lost.unlaunched > SimTime()) {
    text = fmt::format("the recording of rank {} lacks the launches of {:.1f} % of its device work",
                       rank, 100 * lost.unlaunched.us() / lost.device.us());
  }
  if (lost.without_work > 0) {
    text += text.empty() ? fmt::format("the recording of rank {} lacks", rank) : " and";
    text += fmt::format(" the device work of {} of {} launches", lost.without_work, lost.launches);
  }
  return text;
}

std::string Ms(SimTime time) { return fmt::format("{:.3f} ms", time.us() * 1e-3); }

std::string DescribeUnresolved(const TraceStore& store, const Unresolved& unresolved) {
  const RankTrace& rank = store.ranks()[unresolved.rank];
  std::string text =
      fmt::format("{} of rank {} for {} that nothing in the recording explains",
                  Counted(unresolved.waits, "wait"), rank.info().rank, Ms(unresolved.time));
  if (unresolved.longest != nullptr) {
    text += fmt::format(" (the longest stream wait: {}, {})",
                        DescribeCall(store, rank, unresolved.longest->call),
                        Ms(unresolved.longest->time));
  }
  return text;
}

std::string DescribeWorst(const TraceStore& store, const WorstStep& worst) {
  const std::string of_rank =
      fmt::format("step {} of rank {}", worst.number, store.ranks()[worst.rank].info().rank);
  const auto text = [&] {
    switch (worst.of) {
      case WorstStep::Of::kMarks:
        return fmt::format("{} takes {}", of_rank, Ms(worst.predicted));
      case WorstStep::Of::kCompletion:
        return fmt::format("the device work of {} is done after {}", of_rank, Ms(worst.predicted));
      case WorstStep::Of::kPeriod:
        return fmt::format("{} is complete {} after the one before", of_rank, Ms(worst.predicted));
    }
    return of_rank;
  };
  return fmt::format("replayed unchanged, {} instead of the recorded {} ({:+.1f} %)", text(),
                     Ms(worst.recorded), 100 * worst.error);
}

std::optional<std::string> Doubt(const TraceStore& store, const Prediction& unchanged) {
  const WorstStep worst = FindWorstStep(store, unchanged);
  const Unresolved unresolved = FindUnresolved(unchanged);
  const Lost lost = FindMostLost(store);
  const bool differs = std::abs(worst.error) > kStepDiffers;
  const bool lacks = lost.share() > kLostShare;
  const Guessed guessed = FindGuessed(unchanged);
  const bool guesses = guessed.share > kGuessedShare;
  if (!differs && !lacks && !guesses && unresolved.share <= kUnresolvedShare) return std::nullopt;
  std::vector<std::string> reasons;
  if (differs) reasons.push_back(DescribeWorst(store, worst));
  if (unresolved.waits > 0) reasons.push_back(DescribeUnresolved(store, unresolved));
  if (lacks) reasons.push_back(DescribeLost(store, lost));
  if (guesses) {
    reasons.push_back(fmt::format(
        "who communicates with whom is inferred from when kernels end, and leaves {} of rank {} "
        "unexplained",
        Ms(guessed.time), store.ranks()[guessed.rank].info().rank));
  }
  if (reasons.size() == 1 && differs) reasons.push_back("no wait stands out");
  return fmt::format("this replay has not understood the job: {}", fmt::join(reasons, "; "));
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
  FORETRACE_ASSIGN_OR_RETURN(CompiledJob recorded,
                             CompileAgain(store, prediction.job, AsRecorded(setup)));
  FORETRACE_ASSIGN_OR_RETURN(const Prediction unchanged,
                             Replay(store, std::move(recorded), nullptr));
  return Doubt(store, unchanged);
}

std::vector<std::string> WaitNotes(const TraceStore& store, const Prediction& prediction) {
  std::vector<std::string> notes;
  int64_t blocks = 0;
  int64_t waits = 0;
  SimTime blocked, held, kept, later;
  const HeldWait* first = nullptr;
  const HeldWait* first_later = nullptr;
  const RankTrace* first_rank = nullptr;
  const RankTrace* later_rank = nullptr;
  for (size_t r = 0; r < prediction.job.reports.size(); ++r) {
    const RankCompileReport& report = prediction.job.reports[r];
    blocks += report.unexplained_blocks;
    blocked += report.unexplained_time;
    for (const HeldWait& h : report.sync.held) ++waits, held += h.time;
    const RankTrace& rank = store.ranks()[r];
    for (const HeldWait& h : report.sync.after_unrecorded) {
      const bool own = report.sync.IsTooLate(rank, h);
      (own ? later : kept) += h.time;
      const HeldWait*& named = own ? first_later : first;
      if (named != nullptr) continue;
      named = &h;
      (own ? later_rank : first_rank) = &rank;
    }
  }
  if (blocks > 0) {
    notes.push_back(fmt::format(
        "{} waited for something that the traces do not show, {} in all; that waiting is left out "
        "where an op around the call bounds it, and counts as CPU overhead elsewhere",
        Counted(blocks, "blocking call"), Ms(blocked)));
  }
  if (waits > 0) {
    notes.push_back(fmt::format(
        "{} held work up for {} longer than anything in the traces explains; that waiting is left "
        "out",
        Counted(waits, "stream wait"), Ms(held)));
  }
  if (first != nullptr) {
    notes.push_back(fmt::format(
        "{} was waited for work of before the recording, first by {}{}; it is kept as recorded",
        Ms(kept), DescribeCall(store, *first_rank, first->call),
        first->held == first->call
            ? std::string()
            : fmt::format(" ({})", Excerpt(store.name(*first_rank, first->held), 60))));
  }
  if (first_later != nullptr) {
    notes.push_back(fmt::format(
        "{} passed between a launch and the first work of its stream, long after the recording "
        "began, for which nothing recorded was waited for, first by {} ({}); it is kept",
        Ms(later), DescribeCall(store, *later_rank, first_later->call),
        Excerpt(store.name(*later_rank, first_later->held), 60)));
  }
  return notes;
}

}  // namespace foretrace
