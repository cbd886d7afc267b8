#pragma once
// What the SimGrid module offers. SimGrid brings dozens of libraries, which take tens of
// milliseconds and megabytes to load; so it is a module that is loaded when a network asks for it.
// Rules of modules: base/module.h.

#include <cstdint>
#include <functional>

#include "simulator/network/flow_backend.h"

namespace foretrace {

// The platform, as far as SimGrid has to know it.
struct SimgridPlatform {
  int32_t devices = 0;
  std::function<void(DeviceId from, DeviceId to, Route& route)> find_route;
  std::function<Bandwidth(LinkId)> link_rate;
  std::function<bool(DeviceId, DeviceId)> same_node;
};

// Flows on a SimGrid engine. Only inside a worker process: one engine per process.
class SimgridBackend : public FlowBackend {
 public:
  // `time` may not lie before now(); not reported to the sink.
  virtual void CallBackAt(RealSeconds time, std::function<void()> call) = 0;
  // Runs until nothing is left to happen. `after_event` is called after every report to the sink.
  virtual void Run(std::function<void()> after_event) = 0;
};

// The module's one function. Builds one host per device and a route per pair; both arguments must
// outlive the backend, which belongs to the caller.
using MakeSimgridBackend = SimgridBackend*(const SimgridPlatform& platform, FlowSink& sink);
inline constexpr char kMakeSimgridBackend[] = "foretrace_make_simgrid_backend";

}  // namespace foretrace
