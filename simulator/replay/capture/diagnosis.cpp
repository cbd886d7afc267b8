#include "simulator/replay/capture/diagnosis.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "simulator/base/counted.h"
#include "simulator/base/statistics.h"
#include "simulator/replay/capture/capture_lines.h"
#include "simulator/replay/simulation_setup.h"
#include "simulator/replay/step_errors.h"

namespace foretrace {
namespace {

// How many of a kind of node have something.
struct Share {
  int64_t have = 0;
  int64_t all = 0;

  void Count(bool has) {
    have += has ? 1 : 0;
    ++all;
  }
  double share() const {
    return all == 0 ? 1 : static_cast<double>(have) / static_cast<double>(all);
  }
  std::string Of(std::string_view what) const {
    return fmt::format("{} of {} {}", have, all, what);
  }
};

// What the nodes of all ranks say.
struct Evidence {
  Share launched;     // device work with the call that issued it
  Share shaped;       // operators that issue device work and have dimensions
  Share tensor_ids;   // operators with ids of tensors, as execution traces have them
  Share named_waits;  // calls that wait for an event or stream and name it
  Share grouped;      // communication with a process group
  Share numbered;     // communication with a sequence number
  Share sized;        // communication with its bytes
  Share waved;        // kernels with what block placement needs
  int64_t device_nodes = 0;
};

bool WaitsForEvent(RuntimeCall call) {
  return call == RuntimeCall::kStreamWaitEvent || call == RuntimeCall::kEventSynchronize ||
         call == RuntimeCall::kStreamSynchronize;
}

void CountDevice(const TraceStore& store, const RankTrace& rank, NodeIndex n, Evidence& e) {
  ++e.device_nodes;
  e.launched.Count(rank.launcher(n).valid());
  if (IsCommunicationKind(rank.kind(n))) {
    const CommAttr* comm = rank.comm(n);
    // Groups without a name are called after their stream, and are declared nowhere.
    e.grouped.Count(comm != nullptr && comm->group.valid() &&
                    store.process_groups().contains(store.strings().Get(comm->group)));
    e.numbered.Count(comm != nullptr && comm->sequence >= 0);
    e.sized.Count(comm != nullptr && (comm->bytes_in.count() > 0 || comm->bytes_out.count() > 0));
  } else if (rank.kind(n) == NodeKind::kKernel) {
    e.waved.Count(rank.waves_milli(n) > 0);
  }
}

Evidence Gather(const TraceStore& store) {
  Evidence e;
  for (const RankTrace& rank : store.ranks()) {
    std::vector<bool> issues(rank.size());
    for (uint32_t i = 0; i < rank.size(); ++i) {
      const NodeIndex n(i);
      if (!IsDeviceKind(rank.kind(n))) continue;
      CountDevice(store, rank, n, e);
      const NodeIndex call = rank.launcher(n);
      const NodeIndex op = call.valid() ? rank.parent(call) : rank.parent(n);
      if (op.valid()) issues[op.value] = true;
    }
    for (uint32_t i = 0; i < rank.size(); ++i) {
      const NodeIndex n(i);
      if (rank.kind(n) == NodeKind::kRuntimeCall && WaitsForEvent(rank.runtime_call(n))) {
        e.named_waits.Count(rank.sync(n) != nullptr);
      }
      if (rank.kind(n) != NodeKind::kCpuOp || !issues[i]) continue;
      const auto tensors = rank.tensors(n);
      e.shaped.Count(!tensors.empty());
      e.tensor_ids.Count(std::ranges::any_of(tensors, [](const Tensor& t) { return t.id != 0; }));
    }
  }
  return e;
}

class Doctor {
 public:
  Doctor(const TraceStore& store, const DiagnosisInput& input)
      : store_(store), input_(input), evidence_(Gather(store)) {}

  Diagnosis Run() {
    out_.source = store_.ranks().front().info().source;
    if (!store_.ranks().front().info().has_times) {
      const bool symbolic = LacksDurations(store_);
      Add("times", FindingState::kLacks, symbolic ? "symbolic traces" : "durations without starts",
          symbolic ? "durations come from models and a platform alone"
                   : "order comes from dependencies, and no recorded time judges a prediction",
          CaptureLines::kWholeCapture);
      return std::move(out_);
    }
    Device();
    Steps();
    Ranks();
    Operators();
    Waits();
    Communication();
    Clocks();
    Extras();
    Distortion();
    Replay();
    return std::move(out_);
  }

 private:
  void Add(std::string what, FindingState state, std::string found, std::string_view cost = "",
           std::string_view remedy = "") {
    out_.findings.push_back(
        {std::move(what), state, std::move(found), std::string(cost), std::string(remedy)});
  }
  // Holds where `share` is nearly all, else `lacking`.
  void AddShare(std::string what, const Share& share, std::string_view of, FindingState lacking,
                std::string_view cost, std::string_view remedy) {
    if (share.all == 0) return;
    // Some operators have nothing to say: those without tensors have no shapes.
    constexpr double kNearlyAll = 0.9;
    const bool holds = share.share() >= kNearlyAll;
    Add(std::move(what), holds ? FindingState::kHolds : lacking, share.Of(of), holds ? "" : cost,
        holds ? "" : remedy);
  }

  void Device() {
    if (evidence_.device_nodes == 0) {
      Add("device work", FindingState::kLacks, "none", "there is nothing to predict",
          CaptureLines::kActivities);
      return;
    }
    Add("device work", FindingState::kHolds, fmt::format("{} nodes", evidence_.device_nodes));
    AddShare("correlation", evidence_.launched, "device nodes name the call that issued them",
             FindingState::kLacks, CaptureLines::kCorrelationCost, CaptureLines::kActivities);
    AddShare("occupancy", evidence_.waved, "kernels with grid, block and registers",
             FindingState::kOptional, CaptureLines::kOccupancyCost, CaptureLines::kActivities);
    std::vector<std::string> unnamed;
    for (const RankTrace& rank : store_.ranks()) {
      if (rank.info().device_name.empty()) unnamed.push_back(fmt::format("{}", rank.info().rank));
    }
    Add("device name", unnamed.empty() ? FindingState::kHolds : FindingState::kOptional,
        unnamed.empty() ? store_.ranks().front().info().device_name
                        : fmt::format("none of ranks {}", fmt::join(unnamed, ",")),
        unnamed.empty() ? "" : CaptureLines::kDeviceNameCost,
        unnamed.empty() ? "" : CaptureLines::kActivities);
  }

  void Steps() {
    size_t fewest = SIZE_MAX;
    for (const RankTrace& rank : store_.ranks()) {
      fewest = std::min(fewest, rank.iterations().size());
    }
    constexpr size_t kWanted = 3;
    if (fewest < kWanted) {
      Add("steps", FindingState::kLacks, fewest == 0 ? "no step marks" : Counted(fewest, "step"),
          CaptureLines::kStepsCost, CaptureLines::kSteps);
    } else {
      Add("steps", FindingState::kHolds, Counted(fewest, "step"));
    }
    if (fewest >= kWanted) WarmUp();
  }

  // The first step against the others of its rank.
  void WarmUp() {
    double worst = 1;
    for (const RankTrace& rank : store_.ranks()) {
      std::vector<double> later;
      for (const IterationMark& mark : rank.iterations().subspan(1)) {
        later.push_back(rank.duration(mark.node).us());
      }
      const double usual = Quantile(later, 0.5);
      if (usual <= 0) continue;
      worst = std::max(worst, rank.duration(rank.iterations().front().node).us() / usual);
    }
    constexpr double kSlow = 1.2;
    const bool slow = worst > kSlow;
    Add("warm-up", slow ? FindingState::kDoubt : FindingState::kHolds,
        fmt::format("the first step takes {:.2f} times a later one", worst),
        slow ? "caches, allocators and clocks were not settled; report a later --iteration" : "",
        slow ? CaptureLines::kSteps : "");
  }

  void Ranks() {
    const size_t present = store_.ranks().size();
    const auto all = static_cast<size_t>(std::max(store_.world_size(), 1));
    const bool lacks = present < all;
    if (evidence_.grouped.all == 0 && !lacks) {
      Add("ranks", FindingState::kHolds,
          present == 1 ? "1, which does not communicate"
                       : fmt::format("{}, which do not communicate", present));
      return;
    }
    Add("ranks", lacks ? FindingState::kLacks : FindingState::kHolds,
        fmt::format("{} of {}", present, all), lacks ? CaptureLines::kRanksCost : "",
        lacks ? CaptureLines::kEveryRank : "");
  }

  void Operators() {
    AddShare("shapes", evidence_.shaped, "operators that issue device work have shapes",
             FindingState::kLacks, CaptureLines::kShapesCost, CaptureLines::kShapes);
    AddShare("execution trace", evidence_.tensor_ids, "of these have tensor ids",
             FindingState::kOptional, CaptureLines::kExecutionTraceCost,
             CaptureLines::kExecutionTrace);
  }

  void Waits() {
    AddShare("events", evidence_.named_waits, "waits name their event or stream",
             FindingState::kLacks, CaptureLines::kEventsCost, CaptureLines::kEvents);
  }

  void Communication() {
    if (evidence_.grouped.all == 0) return;
    AddShare("process groups", evidence_.grouped, "communication nodes name their group",
             FindingState::kLacks, CaptureLines::kGroupsCost, CaptureLines::kNewPytorch);
    AddShare("message sizes", evidence_.sized, "communication nodes have bytes",
             FindingState::kLacks, CaptureLines::kSizesCost, CaptureLines::kShapes);
    AddShare("sequence numbers", evidence_.numbered, "communication nodes are numbered",
             FindingState::kOptional, CaptureLines::kSequenceCost, CaptureLines::kNewPytorch);
    if (!input_.inspection->communicator_error.empty()) {
      Add("matching", FindingState::kDoubt, input_.inspection->communicator_error,
          "collectives of the ranks do not fit together", CaptureLines::kEveryRank);
    } else if (!input_.inspection->communicator_doubts.empty()) {
      Add("matching", FindingState::kDoubt, input_.inspection->communicator_doubts.front(),
          "members of communicators were inferred", CaptureLines::kNewPytorch);
    }
  }

  void Clocks() {
    if (store_.ranks().size() < 2 || input_.prediction == nullptr) return;
    SimTime offset, skew;
    for (const RankCompileReport& report : input_.prediction->job.reports) {
      const SimTime own = report.clock_offset;
      offset = std::max(offset, own < SimTime() ? SimTime() - own : own);
      skew = std::max(skew, report.start_skew);
    }
    const bool apart = store_.diagnostics().Count(Repair::kUnrelatedClocks) > 0;
    Add("clocks", apart ? FindingState::kDoubt : FindingState::kHolds,
        apart ? "of no common zero"
              : fmt::format("up to {:.1f} us apart, corrected; ranks start up to {:.1f} us apart",
                            offset.us(), skew.us()),
        apart ? "when ranks arrive is known from the ends of collectives alone" : "");
  }

  void Extras() {
    int64_t frames = 0, modules = 0, memory = 0;
    for (const ProfileExtras& e : input_.extras) {
      frames += static_cast<int64_t>(e.frames.size());
      modules += e.modules;
      memory += static_cast<int64_t>(e.memory.size());
    }
    const auto optional = [&](std::string what, int64_t count, std::string_view unit,
                              std::string_view cost, std::string_view remedy) {
      const bool holds = count > 0;
      Add(std::move(what), holds ? FindingState::kHolds : FindingState::kOptional,
          holds ? fmt::format("{} {}", count, unit) : "none", holds ? "" : cost,
          holds ? "" : remedy);
    };
    optional("stacks", frames, "Python frames", CaptureLines::kStacksCost, CaptureLines::kStacks);
    optional("modules", modules, "calls of modules", CaptureLines::kModulesCost,
             CaptureLines::kStacks);
    optional("memory", memory, "allocations", CaptureLines::kMemoryCost, CaptureLines::kMemory);
  }

  // Whether recording made the steps longer than they are without.
  void Distortion() {
    double recorded_ns = 0;
    for (const RankTrace& rank : store_.ranks()) {
      SimTime end;
      for (uint32_t i = 0; i < rank.size(); ++i) {
        if (rank.has_duration(NodeIndex(i))) end = std::max(end, rank.end(NodeIndex(i)));
      }
      recorded_ns += 1e3 * (end - rank.start(NodeIndex(0))).us();
    }
    double overhead_ns = 0, frames = 0;
    for (const ProfileExtras& e : input_.extras) {
      overhead_ns += static_cast<double>(e.overhead_ns);
      frames += static_cast<double>(e.frames.size());
    }
    if (input_.extras.empty() || recorded_ns <= 0) return;
    // A frame costs its tracer about a microsecond (two clock readings and a record).
    constexpr double kFrameNs = 1000, kNegligible = 0.01;
    const double own = overhead_ns / recorded_ns, traced = frames * kFrameNs / recorded_ns;
    const bool doubt = own > kNegligible || traced > kNegligible;
    Add("profiler's own time", doubt ? FindingState::kDoubt : FindingState::kHolds,
        fmt::format("{:.1f} % of the recording; {:.0f} Python frames at 1 us: {:.1f} %", 100 * own,
                    frames, 100 * traced),
        doubt ? "CPU time between calls is longer than without the profiler" : "",
        doubt ? CaptureLines::kLessOverhead : "");
  }

  void Replay() {
    if (input_.prediction == nullptr) {
      if (evidence_.device_nodes == 0) return;  // which says it
      Add("replay", FindingState::kDoubt, input_.no_prediction, "no prediction is possible", "");
      return;
    }
    std::vector<double> errors;
    for (const StepError& step : CompareSteps(store_, *input_.prediction)) {
      if (!step.partial && !step.idle && step.measured > SimTime()) errors.push_back(step.error);
    }
    if (errors.empty()) return;
    const ErrorSummary summary = SummarizeErrors(errors);
    constexpr double kClosePercent = 5;
    const bool close = summary.max_percent <= kClosePercent;
    Add("replay", close ? FindingState::kHolds : FindingState::kDoubt,
        fmt::format("repeats {} within {:.2f} % (mean {:.2f} %)",
                    Counted(summary.count, "recorded step"), summary.max_percent,
                    summary.mape_percent),
        close ? "" : "what-ifs rest on a replay that does not follow the recording", "");
  }

  const TraceStore& store_;
  const DiagnosisInput& input_;
  const Evidence evidence_;
  Diagnosis out_;
};

}  // namespace

std::string_view Name(FindingState state) {
  switch (state) {
    case FindingState::kHolds:
      return "holds";
    case FindingState::kLacks:
      return "LACKS";
    case FindingState::kOptional:
      return "without";
    case FindingState::kDoubt:
      return "DOUBT";
  }
  return "";
}

bool Diagnosis::Sound() const {
  return std::ranges::all_of(findings, [](const Finding& f) {
    return f.state == FindingState::kHolds || f.state == FindingState::kOptional;
  });
}

std::string Diagnosis::Verdict() const {
  std::vector<std::string> lacks, doubts;
  for (const Finding& f : findings) {
    if (f.state == FindingState::kLacks) lacks.push_back(f.what);
    if (f.state == FindingState::kDoubt) doubts.push_back(f.what);
  }
  if (lacks.empty() && doubts.empty()) return "a sound capture: predictions can rest on it";
  std::string verdict;
  if (!lacks.empty()) verdict += fmt::format("lacks {}", fmt::join(lacks, ", "));
  if (!doubts.empty()) {
    verdict += fmt::format("{}doubtful: {}", lacks.empty() ? "" : "; ", fmt::join(doubts, ", "));
  }
  return verdict;
}

Diagnosis Diagnose(const TraceStore& store, const DiagnosisInput& input) {
  return Doctor(store, input).Run();
}

}  // namespace foretrace
