#pragma once

#include <cstdint>
#include <vector>

#include "simulator/engine/replay.h"
#include "simulator/report/event_table.h"
#include "simulator/report/link_load.h"
#include "simulator/topology/topology.h"

namespace foretrace {

struct LinkLoads {
  std::vector<LinkLoad> links;  // those that move most bytes, at most kMostLinks, by their names
  int64_t used = 0;             // links that move anything
  int64_t left_out = 0;         // transfers without a known plan: no size, or too many messages
};

constexpr size_t kMostLinks = 64;

// The links that the collectives and sends of `table` pass: what each transfer's plan (the
// algorithm that the network models choose, network/transfer_planner.h) puts on each link of its
// routes, spread evenly over the time that the prediction gives the transfer.
LinkLoads FindLinkLoads(const EventTable& table, const Prediction& prediction,
                        const Topology& topology);

}  // namespace foretrace
