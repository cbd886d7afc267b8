#include "simulator/network/folded_exchange.h"

#include <algorithm>
#include <map>

#include "absl/container/flat_hash_map.h"
#include "simulator/base/check.h"

namespace foretrace {
namespace {

class Folder {
 public:
  Folder(const Topology& topology, int32_t ranks)
      : topology_(topology), ranks_(ranks), nodes_(ranks / topology.spec().node.devices) {
    folded_.ranks_per_node = topology.spec().node.devices;
  }

  FoldedExchange Run() {
    for (DeviceId from = 0; from < folded_.ranks_per_node; ++from) {
      for (DeviceId to = 0; to < ranks_; ++to) {
        if (from != to) Add(from, to);
      }
    }
    // Every node sends what node 0 does, so that each link of an orbit sees its part of nodes_
    // times the traversals counted.
    for (FoldedExchange::Class& c : folded_.classes) {
      for (size_t i = 0; i < c.links.size(); ++i) {
        const int64_t traversals = int64_t{c.counts[i]} * nodes_;
        const int64_t size = sizes_[c.links[i]];
        FORETRACE_CHECK(traversals % size == 0);
        c.counts[i] = static_cast<uint32_t>(traversals / size);
      }
    }
    return std::move(folded_);
  }

 private:
  void Add(DeviceId from, DeviceId to) {
    topology_.FindRoute(from, to, route_);
    path_.clear();
    for (const LinkId link : route_.links) path_.push_back(Place(link));
    const auto [known, fresh] =
        classes_.try_emplace(path_, static_cast<uint32_t>(folded_.classes.size()));
    if (fresh) {
      folded_.classes.emplace_back();
      folded_.classes.back().latency = RealSeconds(route_.latency);
      folded_.classes.back().inter = topology_.node_of(from) != topology_.node_of(to);
    }
    FoldedExchange::Class& c = folded_.classes[known->second];
    for (const uint32_t place : path_) {
      const auto at = std::find(c.links.begin(), c.links.end(), place) - c.links.begin();
      if (static_cast<size_t>(at) == c.links.size()) {
        c.links.push_back(place);
        c.counts.push_back(0);
      }
      ++c.counts[static_cast<size_t>(at)];
    }
    folded_.messages.push_back({from, to % folded_.ranks_per_node, known->second});
  }

  uint32_t Place(LinkId link) {
    const LinkOrbit orbit = topology_.Orbit(link, nodes_);
    const auto [it, fresh] =
        places_.try_emplace(orbit.first, static_cast<uint32_t>(folded_.links.size()));
    if (fresh) {
      folded_.links.push_back(topology_.link_rate(link));
      sizes_.push_back(orbit.size);
    }
    return it->second;
  }

  const Topology& topology_;
  int32_t ranks_;
  int32_t nodes_;
  FoldedExchange folded_;
  std::vector<int64_t> sizes_;  // of the orbit behind each of folded_.links
  absl::flat_hash_map<LinkId, uint32_t> places_;
  std::map<std::vector<uint32_t>, uint32_t> classes_;
  Route route_;
  std::vector<uint32_t> path_;
};

}  // namespace

std::optional<FoldedExchange> FoldExchange(const Topology& topology,
                                           std::span<const DeviceId> devices) {
  const auto ranks = static_cast<int32_t>(devices.size());
  const int32_t per_node = topology.spec().node.devices;
  const int32_t nodes = ranks / per_node;
  if (nodes < 2 || ranks % per_node != 0 || !topology.InterchangeableNodes(nodes)) {
    return std::nullopt;
  }
  // They differ, so that these are all of the first nodes.
  if (std::ranges::any_of(devices, [&](DeviceId d) { return d >= ranks; })) return std::nullopt;
  return Folder(topology, ranks).Run();
}

}  // namespace foretrace
