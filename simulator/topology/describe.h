#pragma once

#include <string>

#include "simulator/topology/topology.h"

namespace foretrace {

// Bytes per second between two halves of the devices in one direction, over the cut through the
// fabric (through the node, for one node) that a balanced split by structure makes.
Bandwidth BisectionBandwidth(const Topology& topology);

// The most links on a route between two devices; exact, since every node looks alike.
int32_t Diameter(const Topology& topology);

// A drawing of the node and the fabric, link types with sources, bisection bandwidth, diameter and
// a table of ranks and devices (the first `max_ranks`). Several lines.
std::string DescribeTopology(const Topology& topology, int32_t max_ranks);

}  // namespace foretrace
