#pragma once
// Compiles one rank; a detail of compile.h.

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/engine/compile.h"

namespace foretrace {

struct CompiledRank {
  RankProgram program;
  RankCompileReport report;
  std::vector<CpuAnchor> anchors;
  UnshownItemWaits unshown;
  std::vector<uint32_t> item_of;  // by node; kNoItem for nodes that are no items
  std::vector<NodeIndex> missing;
};

// What is inferred from one rank's recording.
struct RankAnalysis {
  // `of_driver`: of the device that it was recorded on.
  RankAnalysis(const TraceStore& store, uint32_t rank, const DriverLimits& of_driver);
  DriverLimits driver;
  std::optional<DeviceIndex> index;  // recorded traces only
  IssueOrder order;
  RankSync sync;
};

// What is inferred from a job's recordings, whatever is asked of it.
struct Reconstruction {
  CommunicatorMap communicators;
  std::vector<SimTime> clock_offset;  // by rank
  std::vector<bool> clock_bounded;    // of which only a bound is known (clock_bounds.h)
  std::vector<bool> clock_unknown;    // of which nothing is known
  std::vector<SimTime> clock_noise;   // what they seem to be apart by, not corrected
  std::vector<std::unique_ptr<RankAnalysis>> ranks;
  Latencies latencies;
};

class RankCompiler {
 public:
  // `latencies` are those of the platform.
  RankCompiler(const TraceStore& store, uint32_t rank, const CompileOptions& options,
               const RankAnalysis& analysis, const Latencies& latencies);
  absl::StatusOr<CompiledRank> Run();

 private:
  void CompileRecorded();
  void CompileAlgorithm1();
  CpuTimelinePoints AddOneTimeline();
  void AddStream(const std::vector<NodeIndex>& issued);
  void JoinStreams(const std::vector<NodeIndex>& sequence);
  void StartStepsTogether();
  void CompileSymbolic();

  void AddTimeline(const CpuTimelinePoints& timeline, bool main);
  void AddCpuItem(const CpuTimelinePoints& timeline, const CpuPoint& point);
  bool ModelsOverheads(const CpuPoint& point) const;
  SimTime Lead(const CpuTimelinePoints& timeline, const CpuPoint& point);
  void AddStreams();
  void KeepAsRecorded(uint32_t item, SimTime at);
  void KeepUnrecordedWaits();
  uint32_t AddDeviceItem(NodeIndex node, uint32_t lane, SimTime previous_recorded_end);
  void SetOccupancy(NodeIndex node, Item& item);
  void FindContention();
  SimTime DeviceDuration(NodeIndex node, Item& item);
  void AddWaits(const std::vector<CpuTimelinePoints>& timelines);
  std::vector<WaitOfItem> WaitsOf(const std::vector<SyncEdge>& edges);
  void AddLaunchQueueWaits(const std::vector<CpuTimelinePoints>& timelines);
  void FindIterations();

  const TraceStore& store_;
  const RankTrace& rank_;
  const CompileOptions& options_;
  const RankAnalysis& analysis_;
  const DeviceIndex* index_;  // null for symbolic traces
  CompiledRank out_;
  SimTime recorded_begin_;
  // Waits by item, put in order once all are known.
  std::vector<std::pair<uint32_t, ItemWait>> waits_;
};

// When the rank's recording begins: its first CPU point, else its first device work.
SimTime RecordedBegin(const RankTrace& rank);

// What the members of a rendezvous move. Errors: communication without a size or an operation.
absl::StatusOr<TransferSpec> TransferOf(const TraceStore& store,
                                        const MatchedCommunicator& communicator,
                                        const MatchedRendezvous& rendezvous);

// "rank 3 node 17 (all_reduce)"
std::string DescribeNode(const TraceStore& store, const RankTrace& rank, NodeIndex node);

}  // namespace foretrace
