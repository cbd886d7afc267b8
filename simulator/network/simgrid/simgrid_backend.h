#pragma once
// Flows on a SimGrid engine. Only inside a worker process: one engine per process.

#include <simgrid/s4u.hpp>

#include <functional>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "simulator/network/flow_backend.h"

namespace foretrace {

class SimgridBackend : public FlowBackend {
 public:
  // Builds one host per device and a route per pair. Both arguments must outlive the backend.
  SimgridBackend(const Topology& topology, FlowSink& sink);

  double now() const override { return simgrid::s4u::Engine::get_clock(); }
  void Launch(DeviceId from, DeviceId to, double bytes, LatencyScale scale,
              uint32_t token) override;
  void CallAt(double time, uint32_t token) override;
  // `time` may not lie before now(); not reported to the sink.
  void CallBackAt(double time, std::function<void()> call);
  // Runs until nothing is left to happen. `after_event` is called after every report to the sink.
  void Run(std::function<void()> after_event);

 private:
  struct Pending {
    simgrid::s4u::CommPtr comm;
    uint32_t token = 0;
    double latency = 0;
  };
  void BuildPlatform();
  void Deliver(double latency, uint32_t token);
  void OnCompletion(const simgrid::s4u::Activity& activity);

  const Topology& topology_;
  FlowSink& sink_;
  std::unique_ptr<simgrid::s4u::Engine> engine_;
  std::vector<simgrid::s4u::Host*> hosts_;
  absl::flat_hash_map<const simgrid::s4u::Activity*, Pending> pending_;
  // Finished communications stay alive until SimGrid is done with its callback.
  std::vector<simgrid::s4u::CommPtr> finished_;
  std::function<void()> after_event_;
};

}  // namespace foretrace
