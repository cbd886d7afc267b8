#include "simulator/network/communicator.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/network/folded_exchange.h"
#include "simulator/network/nccl_channels.h"
#include "simulator/network/nccl_tuning.h"
#include "simulator/network/ring_orders.h"

namespace foretrace {
namespace {

// Adds up bytes per link; reset costs only what was touched.
class LinkLoads {
 public:
  explicit LinkLoads(const Topology& topology) : topology_(topology) {}
  void Clear() { loads_.clear(); }
  // Returns the latency of the route.
  RealSeconds Add(DeviceId from, DeviceId to, RealBytes bytes) {
    topology_.FindRoute(from, to, route_);
    for (LinkId link : route_.links) loads_[link] += bytes;
    return RealSeconds(route_.latency);
  }
  RealSeconds DrainTime() const {
    RealSeconds longest;
    for (const auto& [link, bytes] : loads_) {
      longest = std::max(longest, bytes / topology_.link_rate(link));
    }
    return longest;
  }

 private:
  const Topology& topology_;
  Route route_;
  absl::flat_hash_map<LinkId, RealBytes> loads_;
};

void MeasureNodes(const Topology& topology, Communicator& c) {
  absl::flat_hash_map<int32_t, int32_t> count;
  for (DeviceId device : c.devices) {
    c.ranks_per_node = std::max(c.ranks_per_node, ++count[topology.node_of(device)]);
    c.node_of.push_back(topology.node_of(device));
  }
  c.nodes = static_cast<int32_t>(count.size());
  c.blocked = c.nodes * c.ranks_per_node == c.size();
  for (int32_t i = 0; c.blocked && i < c.size(); ++i) {
    const auto at = static_cast<size_t>(i);
    const auto first = static_cast<size_t>(i / c.ranks_per_node * c.ranks_per_node);
    c.blocked = topology.node_of(c.devices[at]) == topology.node_of(c.devices[first]);
  }
}

// Node by node, then between nodes; over a composed fabric, its dimensions where the members are
// all of its devices in order.
void FindDimensions(const Topology& topology, Communicator& c) {
  const PlatformSpec& spec = topology.spec();
  bool all = c.size() == topology.device_count();
  for (int32_t i = 0; all && i < c.size(); ++i) all = c.devices[static_cast<size_t>(i)] == i;
  if (all && spec.fabric.kind == FabricKind::kDimensions) {
    if (spec.node.devices > 1) c.dimensions.push_back(spec.node.devices);
    for (const DimensionSpec& dim : spec.fabric.dimensions) c.dimensions.push_back(dim.size);
  } else if (c.blocked && c.nodes > 1 && c.ranks_per_node > 1) {
    c.dimensions = {c.ranks_per_node, c.nodes};
  } else {
    c.dimensions = {c.size()};
  }
}

void MeasureRings(const Topology& topology, Communicator& c) {
  c.ring_orders = RingOrders(topology, c.devices);
  LinkLoads loads(topology);
  const RealBytes byte(1);  // on all rings together
  const RealBytes share = byte / static_cast<double>(c.ring_orders.size());
  int64_t inter = 0;
  int64_t intra = 0;
  for (const auto& order : c.ring_orders) {
    for (size_t p = 0; p < order.size(); ++p) {
      const DeviceId from = c.devices[static_cast<size_t>(order[p])];
      const DeviceId to = c.devices[static_cast<size_t>(order[(p + 1) % order.size()])];
      const RealSeconds latency = loads.Add(from, to, share);
      const bool leaves = topology.node_of(from) != topology.node_of(to);
      (leaves ? c.ring_latency_inter : c.ring_latency_intra) += latency;
      ++(leaves ? inter : intra);
    }
  }
  if (inter > 0) c.ring_latency_inter = c.ring_latency_inter / static_cast<double>(inter);
  if (intra > 0) c.ring_latency_intra = c.ring_latency_intra / static_cast<double>(intra);
  if (inter + intra > 0) {
    c.ring_inter_share = static_cast<double>(inter) / static_cast<double>(inter + intra);
  }
  const RealSeconds drain = loads.DrainTime();
  if (drain > RealSeconds()) c.ring_bandwidth = byte / drain;
  c.tree_bandwidth = c.ring_bandwidth;
  const NodeSpec& node = topology.spec().node;
  auto paths = static_cast<int32_t>(c.ring_orders.size());
  if (c.nodes == 1 && node.interconnect == InterconnectKind::kSwitch) {
    // The search of an NVSwitch node ends at 12 rings (src/graph/search.cc: "24 coll channels").
    paths = std::min(node.links_per_device, 12);
  }
  c.chain_orders = MeshChains(topology, c.devices);
  if (c.chain_orders.empty()) {
    c.chain_orders = c.ring_orders;
  } else {
    const auto chains = static_cast<int32_t>(c.chain_orders.size());
    const PlatformSpec& spec = topology.spec();
    c.tree_bandwidth =
        chains * spec.links[static_cast<size_t>(spec.node.interconnect_link)].payload_rate();
    paths = chains;
  }
  // NCCL finds one channel a link (or NIC), then doubles them (src/graph/connect.cc).
  c.channels = 2 * paths;
  // Hopper takes twice as many where nodes have fewer than eight members, since one channel cannot
  // fill half of a port ("Use 4 compute channels per search channel to reach peak BW on <8 PPN").
  const PlatformSpec& spec = topology.spec();
  if (spec.library.generation >= 2 && c.nodes > 1 && c.channels < 16) c.channels *= 2;
  const int32_t counted = spec.library.network_channels;
  if (c.nodes > 1 && counted > 0) c.channels = counted;
}

}  // namespace

bool ReducesInSwitch(const Communicator& c, const PlatformSpec& spec, DType dtype) {
  return spec.library.generation >= 2 && c.nodes == 1 && c.size() >= 3 &&
         spec.node.interconnect == InterconnectKind::kSwitch && !AddsByBytes(dtype);
}

int32_t HeldChannels(const Communicator& c, const PlatformSpec& spec, CollectiveOp op,
                     DType dtype) {
  constexpr int32_t kInSwitch = 16;  // NVLS_NCHANNELS_SM90 (src/transport/nvls.cc)
  // Up to so many one to a neighbour has as few as its peers leave it (SplitPair).
  constexpr RealBytes kMessage(64.0 * 1024 * 1024);
  if (op == CollectiveOp::kAllToAll) return ChannelsOfSends(c.channels);
  if (op == CollectiveOp::kSendRecv) {
    return SplitPair(kMessage, c.size(), c.nodes, c.channels).channels;
  }
  return op == CollectiveOp::kAllReduce && ReducesInSwitch(c, spec, dtype) ? kInSwitch : c.channels;
}

absl::StatusOr<std::shared_ptr<const Communicator>> CommunicatorCache::Get(
    const std::vector<int32_t>& members) {
  const auto found = cache_.find(members);
  if (found != cache_.end()) return found->second;
  if (members.empty()) return InvalidInput("a communicator without members");
  auto c = std::make_shared<Communicator>();
  FORETRACE_ASSIGN_OR_RETURN(c->devices, topology_.DevicesOf(members));
  std::vector<int32_t> sorted = members;
  std::sort(sorted.begin(), sorted.end());
  const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  if (twice != sorted.end()) return InvalidInput("rank {} is twice in one communicator", *twice);
  MeasureNodes(topology_, *c);
  FindDimensions(topology_, *c);
  MeasureRings(topology_, *c);
  cache_[members] = c;
  return std::shared_ptr<const Communicator>(c);
}

namespace {

// How many hops of all lanes stream over each link.
class HopLoads {
 public:
  HopLoads(std::span<const DeviceId> devices, const Topology& topology)
      : devices_(devices), topology_(topology) {}
  void Add(const Hop& hop) {
    for (const LinkId link : RouteOf(hop).links) ++hops_[link];
  }
  RealSeconds Time(const Hop& hop, LatencyScale scale) {
    const Route& route = RouteOf(hop);
    RealSeconds longest;
    for (const LinkId link : route.links) {
      longest = std::max(longest, hops_[link] * hop.bytes / topology_.link_rate(link));
    }
    const bool intra = topology_.node_of(Device(hop.from)) == topology_.node_of(Device(hop.to));
    return longest + RealSeconds(route.latency) * (intra ? scale.intra : scale.inter);
  }

 private:
  DeviceId Device(int32_t rank) const { return devices_[static_cast<size_t>(rank)]; }
  const Route& RouteOf(const Hop& hop) {
    topology_.FindRoute(Device(hop.from), Device(hop.to), route_);
    return route_;
  }

  std::span<const DeviceId> devices_;
  const Topology& topology_;
  Route route_;
  absl::flat_hash_map<LinkId, int32_t> hops_;
};

// The step of an exchange between all pairs, from its fold; nullopt: it cannot be folded.
std::optional<StepCost> FoldedStep(RealBytes bytes, std::span<const DeviceId> devices,
                                   const Topology& topology) {
  const std::optional<FoldedExchange> exchange = FoldExchange(topology, devices);
  if (!exchange) return std::nullopt;
  std::vector<RealBytes> loads(exchange->links.size());
  StepCost cost;
  for (const FoldedExchange::Class& c : exchange->classes) {
    cost.latency = std::max(cost.latency, c.latency);
    for (size_t i = 0; i < c.links.size(); ++i) loads[c.links[i]] += c.counts[i] * bytes;
  }
  for (size_t l = 0; l < loads.size(); ++l) {
    cost.drain = std::max(cost.drain, loads[l] / exchange->links[l]);
  }
  return cost;
}

// Pairs that are gone through one by one: about a thousand ranks.
constexpr int64_t kMostPairs = 1'100'000;

// The same for more pairs than that on nodes that do not fold (switches of a tree that are not
// full): as the same buffers are exchanged within the most of the first nodes that have so few
// pairs. Ports limit both, and each of theirs carries as much but for one part in the number of
// nodes; what a fabric lacks above those nodes is not seen.
std::optional<StepCost> StepOfPart(RealBytes bytes, std::span<const DeviceId> devices,
                                   const Topology& topology) {
  const auto ranks = static_cast<int64_t>(devices.size());
  if (ranks * (ranks - 1) <= kMostPairs) return std::nullopt;
  const int64_t per_node = topology.spec().node.devices;
  const auto most = static_cast<int64_t>(std::sqrt(static_cast<double>(kMostPairs)));
  const int64_t part = std::max(most / per_node, int64_t{2}) * per_node;
  if (part >= ranks) return std::nullopt;
  const double larger = static_cast<double>(ranks) / static_cast<double>(part);
  const std::span<const DeviceId> first = devices.first(static_cast<size_t>(part));
  if (const auto cost = FoldedStep(bytes * larger, first, topology)) return cost;
  LinkLoads loads(topology);
  StepCost cost;
  for (const DeviceId from : first) {
    for (const DeviceId to : first) {
      if (from != to) cost.latency = std::max(cost.latency, loads.Add(from, to, bytes * larger));
    }
  }
  cost.drain = loads.DrainTime();
  return cost;
}

}  // namespace

RealSeconds FillTime(const CollectiveSchedule& schedule, std::span<const DeviceId> devices,
                     const Topology& topology, LatencyScale scale) {
  HopLoads loads(devices, topology);
  std::vector<std::vector<Hop>> lanes(static_cast<size_t>(schedule.lanes()));
  for (int32_t lane = 0; lane < schedule.lanes(); ++lane) {
    schedule.Pieces(lane, lanes[static_cast<size_t>(lane)]);
    for (const Hop& hop : lanes[static_cast<size_t>(lane)]) loads.Add(hop);
  }
  RealSeconds longest;
  for (const std::vector<Hop>& hops : lanes) {
    RealSeconds sum, slowest;
    for (const Hop& hop : hops) {
      const RealSeconds time = loads.Time(hop, scale);
      sum += time;
      slowest = std::max(slowest, time);
    }
    longest = std::max(longest, sum - slowest);
  }
  return longest;
}

RealSeconds StepSum(const CollectiveSchedule& schedule, std::span<const DeviceId> devices,
                    const Topology& topology) {
  if (const std::optional<RealBytes> bytes = schedule.BytesOfEveryPair()) {
    auto cost = FoldedStep(*bytes, devices, topology);
    if (!cost) cost = StepOfPart(*bytes, devices, topology);
    if (cost) return schedule.steps() * (cost->drain + cost->latency);
  }
  std::vector<StepCost> costs(static_cast<size_t>(schedule.steps()));
  std::vector<Send> sends;
  LinkLoads loads(topology);
  RealSeconds total;
  // Ranks of lanes (lane x ranks + rank) by the next step that they have something to do in, so
  // that idle ones cost nothing; in order within a step, since sums depend on it.
  const auto ranks = static_cast<size_t>(schedule.ranks());
  std::vector<std::vector<size_t>> due(static_cast<size_t>(schedule.steps()) + 1);
  for (size_t i = 0; i < ranks * static_cast<size_t>(schedule.lanes()); ++i) due[0].push_back(i);
  for (int32_t step = 0; step < schedule.steps(); ++step) {
    StepCost& cost = costs[static_cast<size_t>(step)];
    std::vector<size_t>& here = due[static_cast<size_t>(step)];
    std::vector<size_t>& after = due[static_cast<size_t>(step) + 1];
    const int32_t same = schedule.SameStep(step);
    if (same < step) {
      cost = costs[static_cast<size_t>(same)];
      after.insert(after.end(), here.begin(), here.end());
    } else {
      loads.Clear();
      std::sort(here.begin(), here.end());
      for (const size_t i : here) {
        const auto rank = static_cast<int32_t>(i % ranks), lane = static_cast<int32_t>(i / ranks);
        const int32_t next = schedule.NextStep(rank, lane, step);
        due[static_cast<size_t>(std::max(next, step + 1))].push_back(i);
        if (next > step) continue;
        sends.clear();
        schedule.Sends(rank, lane, step, sends);
        for (const Send& send : sends) {
          cost.latency =
              std::max(cost.latency, loads.Add(devices[static_cast<size_t>(rank)],
                                               devices[static_cast<size_t>(send.to)], send.bytes));
        }
      }
      cost.drain = loads.DrainTime();
    }
    std::vector<size_t>().swap(here);
    total += cost.drain + cost.latency;
  }
  return total;
}

}  // namespace foretrace
