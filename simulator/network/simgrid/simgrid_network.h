#pragma once
// The same flows on SimGrid. Each instance owns a worker process that holds the one SimGrid engine
// allowed per process; instances are therefore independent, like those of the other tiers.

#include <sys/types.h>

#include <memory>
#include <vector>

#include "simulator/base/real_quantities.h"
#include "simulator/network/network_model.h"
#include "simulator/network/transfer_planner.h"

namespace foretrace {

// Errors: more devices than SimGrid is given; known before anything is planned.
absl::Status CheckSimgridSize(const Topology& topology);

class SimgridNetwork : public NetworkModel {
 public:
  // Forks the worker: create it before starting threads. `topology` must outlive the model.
  static absl::StatusOr<std::unique_ptr<SimgridNetwork>> Create(const Topology& topology,
                                                                NetworkOptions options);
  ~SimgridNetwork() override;
  SimgridNetwork(const SimgridNetwork&) = delete;
  SimgridNetwork& operator=(const SimgridNetwork&) = delete;

  std::string_view name() const override { return "simgrid"; }
  bool contends() const override { return true; }
  absl::StatusOr<Estimate> IsolatedDuration(const TransferSpec& spec) override;
  absl::StatusOr<TransferHandle> Start(const TransferSpec& spec, SimTime start) override;
  absl::StatusOr<std::optional<Completion>> Next(SimTime limit) override;

 private:
  SimgridNetwork(const Topology& topology, NetworkOptions options)
      : topology_(topology), options_(options), planner_(topology, options) {}
  const Topology& topology_;
  NetworkOptions options_;
  TransferPlanner planner_;
  int to_worker_ = -1;
  int from_worker_ = -1;
  pid_t worker_ = -1;
  TransferHandle next_handle_ = 0;
  int64_t in_flight_ = 0;
};

// One flow of a flow set: starts at `start`, without latency.
struct TimedFlow {
  DeviceId from = 0;
  DeviceId to = 0;
  RealBytes bytes;
  RealSeconds start;
};

// Completion time of each flow, from SimGrid in a worker process. Flows between a device
// and itself are refused.
absl::StatusOr<std::vector<RealSeconds>> SimgridFlowTimes(const Topology& topology,
                                                          const std::vector<TimedFlow>& flows);

}  // namespace foretrace
