#pragma once
// Moves bytes between devices over a topology's links. Two implementations: the fluid solver and
// SimGrid. Links have no latency inside the sharing model; a route's latency is added after the
// last byte has drained, in both alike.

#include <cstdint>

#include "simulator/base/real_quantities.h"
#include "simulator/topology/topology.h"

namespace foretrace {

// Factors on a route's latency.
struct LatencyScale {
  double intra = 1;  // within a node
  double inter = 1;
};

// Hears of flows and timers; may start new ones from within a call.
class FlowSink {
 public:
  virtual ~FlowSink() = default;
  // The sender is done: the last byte has left.
  virtual void OnDrained(uint32_t token) = 0;
  // The receiver has everything; comes after OnDrained.
  virtual void OnDelivered(uint32_t token) = 0;
  virtual void OnTimer(uint32_t token) = 0;
};

class FlowBackend {
 public:
  virtual ~FlowBackend() = default;
  // Since the start of the simulation.
  virtual RealSeconds now() const = 0;
  // Starts a flow now. One without bytes takes only the route's latency; so does a flow to itself.
  virtual void Launch(DeviceId from, DeviceId to, RealBytes bytes, LatencyScale scale,
                      uint32_t token) = 0;
  // `time` may not lie before now().
  virtual void CallAt(RealSeconds time, uint32_t token) = 0;
};

}  // namespace foretrace
