#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "simulator/topology/topology.h"

namespace foretrace {

// The orders in which rings visit `devices` so that together they use the links well, as positions
// in `devices`:
// - one node with a mesh: edge-disjoint Hamiltonian cycles over the direct links, both ways round;
//   when there is none, device order (which falls back to PCIe between strangers);
// - several nodes: node after node, one order per NIC, each entering the node beside another NIC;
//   where each device has links to every other of its node, by other links within it too;
// - otherwise device order.
std::vector<std::vector<int32_t>> RingOrders(const Topology& topology,
                                             std::span<const DeviceId> devices);

// For devices of one mesh node that no Hamiltonian cycle joins: edge-disjoint Hamiltonian paths,
// both ways round, along which chains and trees run. Empty everywhere else.
std::vector<std::vector<int32_t>> MeshChains(const Topology& topology,
                                             std::span<const DeviceId> devices);

}  // namespace foretrace
