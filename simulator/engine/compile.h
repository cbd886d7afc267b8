#pragma once
// From a trace store to a Program: which items there are, what each costs, what waits for what.

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/cost/cost_model.h"
#include "simulator/engine/program.h"
#include "simulator/hardware/catalog.h"
#include "simulator/reconstruct/communicators.h"
#include "simulator/reconstruct/cpu_timeline.h"
#include "simulator/reconstruct/latencies.h"
#include "simulator/reconstruct/sync_rules.h"

namespace foretrace {

struct Reconstruction;

enum class Semantics : uint8_t {
  kFull,
  kAlgorithm1,  // multi-GPU paper, Algorithm 1
};

// What stands in for the members of a collective that have no trace.
enum class AbsentRanks : uint8_t {
  // Nothing: every present member takes as long as recorded, waiting for the others included.
  kAsRecorded,
  // They come as those that are present do, as much later as recorded: present members meet, and
  // what follows the last of them stays, waiting for absent members included.
  kAlike,
  // They are never the last: what follows the last present member is never longer than the shortest
  // on its communicator. A lower bound.
  kNeverLast,
};

struct CompileOptions {
  Semantics semantics = Semantics::kFull;
  // Simulate what is there.
  bool allow_missing_ranks = false;
  AbsentRanks absent = AbsentRanks::kAsRecorded;
  // Durations of device work; null: recorded ones only. Not asked for communication.
  const CostModel* durations = nullptr;
  // Communication durations from the network model even where recorded ones exist.
  bool model_communication = false;
  // Which operations of it, by one member and the communicator's name; null: all.
  std::function<bool(const RankTrace& rank, NodeIndex node, std::string_view communicator)>
      model_communication_of;
  const OverheadModel* overheads = nullptr;
  // Which ranks and steps (-1: outside of steps) take their overheads from the model; null: all.
  std::function<bool(int32_t rank, int64_t step)> overheads_apply;
  // Keep what CPU overheads consist of, for edits of them (edit.h).
  bool keep_overheads = false;
  std::optional<Latencies> latencies;
  SyncCosts sync_costs;
  // Limits of drivers by the device that a rank names; null: those of the files that ship.
  const AcceleratorCatalog* accelerators = nullptr;
  // Those of the device that durations are for; nullopt: of the one that a rank names.
  std::optional<DeviceLinks> links;
  // What the recording implies stays with the job, for CompileAgain.
  bool keep_reconstruction = false;
};

// What the compiler inferred and how well it fits, for reports.
struct RankCompileReport {
  RankSync sync;  // edges moved out, counts kept
  Latencies latencies;
  int64_t unexplained_blocks = 0;
  SimTime unexplained_time;
  int64_t queue_full_launches = 0;
  int64_t unlaunched_device_nodes = 0;  // in flight when the recording began, or launch missing
  SimTime clock_offset;
  bool clock_bounded = false;  // the offset may be more (reconstruct/clock_bounds.h)
  bool clock_unknown = false;  // nothing shows it
  SimTime clock_noise;         // seems to be off by as much, which is not corrected
  SimTime start_skew;
  bool in_flight_at_start = false;
  // Steps (-1: outside of all) with communication that meets nobody and stays as recorded.
  std::set<int64_t> partial_steps;
};

// A point of the CPU's clock: recorded time against item. Used to place CPU ops.
struct CpuAnchor {
  SimTime recorded_begin;
  SimTime recorded_end;
  uint32_t item = kNoItem;
};

// Waits for which the recording does not show what they wait for (reconstruct/unshown_waits.h).
struct OtherItemWaits {
  std::vector<WaitOfItem> instead_of;  // are among the program's
  std::vector<WaitOfItem> taken;
};
struct UnshownItemWaits {
  std::vector<WaitOfItem> chosen;  // are among the program's
  std::vector<WaitOfItem> latest;
  std::vector<OtherItemWaits> others;  // of waits that held something up
};

// Senders that are taken to wait for their receivers, which nothing shows
// (reconstruct/transfer_modes.h).
struct AssumedAwaits {
  uint32_t rendezvous = 0;
  std::vector<RendezvousProgram::Await> awaits;  // are among the program's
  // By member: its own part where these are not awaited. Empty: what it is in the program.
  std::vector<SimTime> parts;
};

struct CompiledJob {
  Program program;
  CommunicatorMap communicators;
  std::vector<RankCompileReport> reports;
  std::vector<std::vector<CpuAnchor>> cpu_anchors;  // by rank, main timeline
  std::vector<UnshownItemWaits> unshown;            // by rank
  std::vector<AssumedAwaits> assumed;
  // By rank and node: what recorded kernels waited for collectives beside them (fences.h). Empty:
  // not known, recorded kernels then take as long whatever runs beside them.
  std::vector<std::vector<std::pair<NodeIndex, SimTime>>> recorded_fences;
  // The earliest recorded time over all ranks, after clock correction: predicted time 0.
  SimTime origin;
  // Rendezvous with absent members that are waited for as the recording and AbsentRanks say.
  int64_t absent_rendezvous = 0;
  // Communication at the edges of the recording: its partners lie outside, its recorded duration
  // stays, waiting included.
  int64_t unmatched_communication = 0;
  // Transfers that the recording shows to have arrived before they were sent: their receivers do
  // not wait for them.
  int64_t impossible_transfers = 0;
  // Device nodes without any duration, by name: listed, and an error with --strict.
  std::vector<NodeRef> missing;
  Semantics semantics = Semantics::kFull;
  bool symbolic = false;
  // Null without CompileOptions::keep_reconstruction.
  std::shared_ptr<const Reconstruction> reconstruction;
};

// Recordings and symbolic traces are no one job: an error that names one of each.
absl::Status CheckAllHaveTimes(const TraceStore& store);

// Errors: missing members without allow_missing_ranks, communicators that disagree, traces mixed
// with and without times.
absl::StatusOr<CompiledJob> Compile(const TraceStore& store, const CompileOptions& options);

// The same recording under other options. What `job` keeps of it is not inferred again; the catalog
// of accelerators is that of `job`.
absl::StatusOr<CompiledJob> CompileAgain(const TraceStore& store, const CompiledJob& job,
                                         const CompileOptions& options);

}  // namespace foretrace
