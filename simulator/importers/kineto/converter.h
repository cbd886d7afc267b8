#pragma once
// Kineto events to nodes of one rank.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "simulator/importers/importer.h"
#include "simulator/importers/kineto/classify.h"
#include "simulator/importers/kineto/communication.h"
#include "simulator/importers/kineto/event_reader.h"
#include "simulator/importers/kineto/occupancy.h"

namespace foretrace::kineto {

class Converter : public EventSink {
 public:
  Converter(const std::string& source, const ImportOptions& options);

  absl::Status OnEvent(const Event& event) override;
  absl::Status OnHeader(std::string_view key, std::string_view json_text) override;
  // Joins what refers across the file: launches and their device work, synchronisation details,
  // collectives and the operators around their launch.
  absl::StatusOr<ImportedFile> Finish();

 private:
  struct DeviceNode {
    NodeIndex node;
    int64_t correlation = -1;
    bool host_kind_known = true;
    bool described = true;  // the event says how large the work is, or nothing could
    int64_t device = -1;
  };
  // What a call says of the work that it issues, where that does not say it itself (ROCm).
  struct Issued {
    KernelLaunch launch;
    int64_t bytes = -1;
  };
  struct Collective {
    NodeIndex node;
    int64_t correlation = -1;
    CommInfo info;
  };
  struct Sync {
    int64_t correlation = -1;
    SyncAttr attr;
  };

  absl::Status Convert(const Event& event, Category category);
  // Whether the same event came before.
  bool CameBefore(const Event& event, const RankTraceBuilder::NodeSpec& spec);
  absl::StatusOr<SimTime> StartOf(const Event& event);
  absl::StatusOr<SimTime> DurationOf(const Event& event);
  absl::StatusOr<int64_t> RequiredInteger(const Event& event, Field field, std::string_view what);
  LaneIndex CpuLane(const Event& event);
  absl::StatusOr<LaneIndex> StreamLane(const Event& event);
  int64_t ThreadNumber(std::string_view text);
  absl::Status AddCall(const Event& event, RankTraceBuilder::NodeSpec spec);
  uint32_t ProcessOf(const Event& event);
  absl::Status AddCpuNode(const Event& event, Category category, RankTraceBuilder::NodeSpec spec);
  absl::Status AddDeviceNode(const Event& event, Category category,
                             RankTraceBuilder::NodeSpec spec);
  void AddSync(const Event& event);
  void AddTensors(const Event& event, NodeIndex node);
  void NameLane(const Event& event);
  absl::Status ReadDistributedInfo(std::string_view json_text);
  absl::Status ReadDeviceProperties(std::string_view json_text);
  void ResolveLaunches();
  void DescribeByCall(const DeviceNode& device);
  // What copies and fills move; `exact_waves`: KernelLaunch::exact_waves_milli of a copy.
  void AddBytes(const DeviceNode& device, Bytes bytes, std::optional<uint32_t> exact_waves);
  // After the header: producers write the devices before the events or behind them.
  absl::Status ResolveWaves();
  void ResolveSyncs();
  void ResolveCollectives();
  void MarkServingSteps();
  void SetCommunication(NodeIndex node, const CommInfo& info);
  std::string Where(const Event& event) const;
  void Diagnose(Repair repair, const Event& event);
  CommInfo Describe(const Event& event, CommSource source);

  const std::string& source_;
  const ImportOptions& options_;
  std::unique_ptr<RankTraceBuilder> builder_;
  std::optional<int32_t> rank_;
  std::optional<int64_t> origin_us_;
  int64_t base_ns_ = 0;
  absl::flat_hash_map<size_t, NodeIndex> node_by_event_;  // by a hash of what tells events apart
  std::vector<DeviceNode> device_nodes_;
  std::vector<Collective> collectives_;
  std::vector<Sync> syncs_;
  struct Call {
    NodeIndex node;
    uint32_t process = 0;
  };
  absl::flat_hash_map<int64_t, Call> call_by_correlation_;
  // Of processes that make calls: one, but for files put together.
  absl::flat_hash_map<std::string, uint32_t> process_numbers_;
  absl::flat_hash_map<int64_t, Issued> issued_by_correlation_;
  std::vector<std::vector<CommRange>> comm_ranges_;  // by CPU lane
  absl::flat_hash_map<std::string, int64_t> named_threads_;
  absl::flat_hash_map<int64_t, std::string> thread_labels_;
  struct RecordedDevice {
    int64_t id = 0;
    std::string name;
    OccupancyLimits limits;
    int32_t multiprocessors = 0;
  };
  // That a trace describes; else what is known of such.
  absl::StatusOr<const RecordedDevice*> DeviceOf(int64_t id);

  struct LaunchedKernel {
    NodeIndex node;
    int64_t device = -1;
    KernelLaunch launch;
  };
  std::vector<LaunchedKernel> kernel_launches_;
  std::vector<RecordedDevice> devices_;
  std::optional<RecordedDevice> unnamed_;  // that the trace does not describe
  std::optional<int64_t> device_used_;
  std::vector<LinkKey> link_keys_;
  struct ServingStep {
    SimTime start, end;
    NodeIndex node;
  };
  std::vector<ServingStep> serving_steps_;
  bool step_marked_ = false;  // by the profiler
  absl::flat_hash_set<int64_t> step_numbers_;
  // The lane of the previous CPU event, which is usually the lane of the next.
  std::string last_thread_;
  LaneIndex last_lane_;
};

}  // namespace foretrace::kineto
