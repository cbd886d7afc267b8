#pragma once
// An exchange between all pairs of the ranks on a platform's first nodes, folded by the exchanges
// of nodes that map the platform onto itself: the messages that leave node 0 stand for all, and one
// link for all that it can change places with. Tens of thousands of messages instead of hundreds of
// millions, and the same times to the bit.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "simulator/base/real_quantities.h"
#include "simulator/topology/topology.h"

namespace foretrace {

struct FoldedExchange {
  // Messages over the same kinds of links.
  struct Class {
    RealSeconds latency;  // of the route, unscaled
    bool inter = false;   // leaves its node
    // Places of `links`, in order of the first traversal, and how many messages of this class pass
    // each of the links that stand behind it.
    std::vector<uint32_t> links;
    std::vector<uint32_t> counts;
  };
  // A message from the `from`-th rank of node 0; by exchanges, one to the `to`-th rank of a node.
  struct Message {
    int32_t from = 0;
    int32_t to = 0;
    uint32_t in = 0;  // class
  };
  std::vector<Bandwidth> links;
  std::vector<Class> classes;
  std::vector<Message> messages;
  int32_t ranks_per_node = 1;
};

// nullopt: the devices are not all of the first two or more nodes, or these cannot change places.
std::optional<FoldedExchange> FoldExchange(const Topology& topology,
                                           std::span<const DeviceId> devices);

}  // namespace foretrace
