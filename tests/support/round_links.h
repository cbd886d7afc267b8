#pragma once
// A network of round numbers, whose times are easily derived: rings over the devices of a node and
// over one NIC a device.

#include <algorithm>
#include <memory>

#include "simulator/mapping/expert_dispatch.h"
#include "simulator/mapping/iteration_model.h"

namespace foretrace {

struct RoundLinks {
  double node_gbps = 100;    // bus bandwidth of an all-reduce among neighbours in a node
  double gather_gbps = 100;  // of everything else in a node
  double nic_gbps = 10;
  double latency_us = 20;                 // of an all-reduce or all-to-all among neighbours
  double inside_us = 2, outside_us = 10;  // of a step to a neighbour, to another node
  int32_t devices_per_node = 8;
};

class RoundExchanges : public ExchangeTimes {
 public:
  explicit RoundExchanges(const RoundLinks& links) : l_(links) {}

  absl::StatusOr<SimTime> Collective(CollectiveOp op, SpacedGroup g, Bytes bytes) const override {
    return SimTime::FromUs(Us(op, g, static_cast<double>(bytes.count()) * 1e-3));
  }
  // By one NIC, whatever the distance.
  absl::StatusOr<SimTime> Send(int32_t, Bytes bytes) const override {
    return SimTime::FromUs(static_cast<double>(bytes.count()) * 1e-3 / l_.nic_gbps);
  }

 private:
  double Us(CollectiveOp op, const SpacedGroup& g, double kilobytes) const {
    const double n = g.ranks;
    const bool inside = g.ranks * g.span <= l_.devices_per_node;
    switch (op) {
      case CollectiveOp::kAllReduce:
        if (g.span == 1 && inside) {
          return 2 * (n - 1) / n * kilobytes / l_.node_gbps + l_.latency_us;
        }
        return 2 * Ring(g, kilobytes);
      case CollectiveOp::kAllToAll: {
        const double local = std::clamp(l_.devices_per_node / g.span, 1, g.ranks);
        return std::max(kilobytes * (local - 1) / n / l_.gather_gbps,
                        kilobytes * (n - local) / n / l_.nic_gbps) +
               l_.latency_us;
      }
      case CollectiveOp::kSendRecv:
        return kilobytes / (inside ? l_.gather_gbps : l_.nic_gbps) +
               (inside ? l_.inside_us : l_.outside_us);
      default:
        return Ring(g, kilobytes);
    }
  }
  // Once around. As many rings enter and leave a node as have members in it, each by its own NIC.
  double Ring(const SpacedGroup& g, double kilobytes) const {
    const int32_t inside = std::clamp(l_.devices_per_node / g.span, 1, g.ranks);
    const int32_t nodes = (g.ranks + inside - 1) / inside;
    double gbps = nodes == 1 ? l_.gather_gbps : l_.nic_gbps * inside;
    if (inside > 1) gbps = std::min(gbps, l_.gather_gbps);
    return (g.ranks - 1.0) / g.ranks * kilobytes / gbps + l_.inside_us * (g.ranks - nodes) +
           l_.outside_us * (nodes - 1);
  }

  RoundLinks l_;
};

inline std::shared_ptr<const ExchangeTimes> Exchanges(const RoundLinks& links = {}) {
  return std::make_shared<const RoundExchanges>(links);
}

// What tokens go to experts by, of the same round numbers; kernels that their links alone bound.
inline void SetExpertLinks(ClusterParameters& cluster, const RoundLinks& links = {}) {
  DeepEpDevice device;
  device.links = {links.devices_per_node, Bandwidth::GBps(links.gather_gbps),
                  Bandwidth::GBps(links.nic_gbps)};
  cluster.deep_ep = std::make_shared<const DeepEpDevice>(device);
}

// The defaults, on links as solvers take them that know one bandwidth.
inline ClusterParameters FlatCluster() {
  ClusterParameters p;
  p.exchanges = Exchanges({.node_gbps = p.flat.node.gbps(),
                           .gather_gbps = p.flat.node.gbps(),
                           .nic_gbps = p.flat.nic.gbps(),
                           .latency_us = p.flat.latency.us()});
  return p;
}

}  // namespace foretrace
