#include "simulator/topology/topology.h"

#include <algorithm>
#include <deque>

#include "simulator/base/check.h"
#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"

namespace foretrace {

Topology::Topology(PlatformSpec spec) : spec_(std::move(spec)) {}

absl::StatusOr<Topology> Topology::Create(PlatformSpec spec) {
  Topology topology(std::move(spec));
  topology.BuildNode();
  const int64_t local =
      int64_t{topology.spec_.nodes} * static_cast<int64_t>(topology.local_links_.size());
  if (local > kMaxFabricLinks) {
    return InvalidInput("{}: {} links inside nodes exceed the limit of {}", topology.spec_.file,
                        local, kMaxFabricLinks);
  }
  topology.fabric_base_ = static_cast<LinkId>(local);
  FORETRACE_ASSIGN_OR_RETURN(topology.fabric_, MakeFabric(topology.spec_));
  return topology;
}

int32_t Topology::rank_count() const {
  return spec_.placement == Placement::kList ? static_cast<int32_t>(spec_.placement_list.size())
                                             : device_count();
}

DeviceId Topology::DeviceOfRank(int32_t rank) const {
  FORETRACE_CHECK(rank >= 0 && rank < rank_count());
  switch (spec_.placement) {
    case Placement::kRoundRobin:
      return rank % spec_.nodes * spec_.node.devices + rank / spec_.nodes;
    case Placement::kList:
      return spec_.placement_list[static_cast<size_t>(rank)];
    default:
      return rank;
  }
}

absl::StatusOr<std::vector<DeviceId>> Topology::DevicesOf(std::span<const int32_t> ranks) const {
  std::vector<DeviceId> devices;
  devices.reserve(ranks.size());
  for (int32_t rank : ranks) {
    if (rank < 0 || rank >= rank_count()) {
      return InvalidInput(
          "rank {} has no device: platform '{}' ({}) places {} ranks on {} devices; "
          "NAME:NODES says how many nodes it has",
          rank, spec_.name, spec_.file, rank_count(), device_count());
    }
    devices.push_back(DeviceOfRank(rank));
  }
  return devices;
}

int32_t Topology::MeshLinks(int32_t a, int32_t b) const {
  for (const MeshEdge& edge : spec_.node.mesh) {
    if (std::minmax(edge.a, edge.b) == std::minmax(a, b)) return edge.count;
  }
  return 0;
}

// PCIe links of a node: device up/down, then switch up/down.
void Topology::BuildPcie() {
  const NodeSpec& node = spec_.node;
  if (node.pcie_link == kNoLinkType) return;
  pcie_up_ = static_cast<int32_t>(local_links_.size());
  for (int32_t d = 0; d < node.devices; ++d) {
    local_links_.push_back({{node.pcie_link, 1}, fmt::format("gpu{}.pcie.up", d)});
    local_links_.push_back({{node.pcie_link, 1}, fmt::format("gpu{}.pcie.down", d)});
  }
  const int32_t switches =
      (node.devices + node.devices_per_pcie_switch - 1) / node.devices_per_pcie_switch;
  for (int32_t s = 0; s < switches; ++s) {
    local_links_.push_back({{node.host_link, 1}, fmt::format("pcie{}.host.up", s)});
    local_links_.push_back({{node.host_link, 1}, fmt::format("pcie{}.host.down", s)});
  }
}

Topology::Path Topology::PciePath(int32_t from, int32_t to) const {
  const auto device_up = static_cast<uint32_t>(pcie_up_);
  const auto host_up = device_up + 2 * static_cast<uint32_t>(spec_.node.devices);
  const auto a = static_cast<uint32_t>(from / spec_.node.devices_per_pcie_switch);
  const auto b = static_cast<uint32_t>(to / spec_.node.devices_per_pcie_switch);
  Path path{device_up + 2 * static_cast<uint32_t>(from)};
  if (a != b) {
    path.push_back(host_up + 2 * a);
    path.push_back(host_up + 2 * b + 1);
  }
  path.push_back(device_up + 2 * static_cast<uint32_t>(to) + 1);
  return path;
}

// Shortest way over the mesh, relayed by devices; only for platforms without PCIe.
Topology::Path Topology::MeshPath(int32_t from, int32_t to) const {
  const auto n = static_cast<size_t>(spec_.node.devices);
  std::vector<int32_t> previous_edge(n, -1);  // directed: 2 x edge + direction
  std::vector<bool> seen(n, false);
  std::deque<int32_t> queue{from};
  seen[static_cast<size_t>(from)] = true;
  while (!queue.empty()) {
    const int32_t at = queue.front();
    queue.pop_front();
    for (size_t e = 0; e < spec_.node.mesh.size(); ++e) {
      const MeshEdge& edge = spec_.node.mesh[e];
      if (edge.a != at && edge.b != at) continue;
      const int32_t next = edge.a == at ? edge.b : edge.a;
      if (seen[static_cast<size_t>(next)]) continue;
      seen[static_cast<size_t>(next)] = true;
      previous_edge[static_cast<size_t>(next)] =
          static_cast<int32_t>(2 * e) + (edge.a == at ? 0 : 1);
      queue.push_back(next);
    }
  }
  Path path;
  for (int32_t at = to; at != from;) {
    const int32_t directed = previous_edge[static_cast<size_t>(at)];
    FORETRACE_CHECK(directed >= 0);  // the loader refuses disconnected meshes
    path.push_back(static_cast<uint32_t>(directed));
    const MeshEdge& edge = spec_.node.mesh[static_cast<size_t>(directed / 2)];
    at = directed % 2 == 0 ? edge.a : edge.b;
  }
  std::reverse(path.begin(), path.end());
  return path;
}

void Topology::BuildNode() {
  const NodeSpec& node = spec_.node;
  const int32_t n = node.devices;
  if (node.interconnect == InterconnectKind::kMesh) {
    for (const MeshEdge& edge : node.mesh) {
      const LinkSpec link{node.interconnect_link, static_cast<double>(edge.count)};
      local_links_.push_back({link, fmt::format("gpu{}-gpu{}", edge.a, edge.b)});
      local_links_.push_back({link, fmt::format("gpu{}-gpu{}", edge.b, edge.a)});
    }
  } else if (node.interconnect == InterconnectKind::kSwitch) {
    const LinkSpec link{node.interconnect_link, static_cast<double>(node.links_per_device)};
    for (int32_t d = 0; d < n; ++d) {
      local_links_.push_back({link, fmt::format("gpu{}.up", d)});
      local_links_.push_back({link, fmt::format("gpu{}.down", d)});
    }
  }
  BuildPcie();
  paths_.resize(static_cast<size_t>(n) * static_cast<size_t>(n));
  for (int32_t a = 0; a < n; ++a) {
    for (int32_t b = 0; b < n; ++b) {
      if (a == b) continue;
      Path& out = paths_[static_cast<size_t>(a * n + b)];
      if (node.interconnect == InterconnectKind::kSwitch) {
        out = {static_cast<uint32_t>(2 * a), static_cast<uint32_t>(2 * b + 1)};
      } else if (node.interconnect == InterconnectKind::kMesh &&
                 (MeshLinks(a, b) > 0 || pcie_up_ < 0)) {
        out = MeshPath(a, b);
      } else {
        out = PciePath(a, b);
      }
    }
  }
  to_nic_.resize(static_cast<size_t>(n));
  from_nic_.resize(static_cast<size_t>(n));
  if (pcie_up_ < 0 || node.nics == 0) return;
  for (int32_t d = 0; d < n; ++d) {
    // A NIC sits beside the first device that uses it; the path ends at that device's switch.
    const int32_t nic = node.nic_affinity[static_cast<size_t>(d)];
    const auto first = std::find(node.nic_affinity.begin(), node.nic_affinity.end(), nic);
    const auto beside = static_cast<int32_t>(first - node.nic_affinity.begin());
    Path there = PciePath(d, beside);
    there.pop_back();
    Path back = PciePath(beside, d);
    back.erase(back.begin());
    to_nic_[static_cast<size_t>(d)] = there;
    from_nic_[static_cast<size_t>(d)] = back;
  }
}

LinkSpec Topology::link(LinkId id) const {
  return id < fabric_base_ ? local_links_[id % local_links_.size()].spec
                           : fabric_->link(id - fabric_base_);
}

Bandwidth Topology::link_rate(LinkId id) const {
  const LinkSpec spec = link(id);
  const Bandwidth one = spec_.links[static_cast<size_t>(spec.type)].payload_rate();
  return Bandwidth::BytesPerSecond(one.bytes_per_second() * spec.count);
}

SimTime Topology::latency(LinkId id) const {
  return spec_.links[static_cast<size_t>(link(id).type)].latency;
}

std::string Topology::LinkName(LinkId id) const {
  if (id >= fabric_base_) return fabric_->LinkName(id - fabric_base_);
  return fmt::format("node{}.{}", id / local_links_.size(),
                     local_links_[id % local_links_.size()].name);
}

LinkOrbit Topology::Orbit(LinkId link, int32_t nodes) const {
  if (link < fabric_base_) return {static_cast<LinkId>(link % local_links_.size()), nodes};
  LinkOrbit orbit = fabric_->Orbit(link - fabric_base_, nodes);
  orbit.first += fabric_base_;
  return orbit;
}

void Topology::AppendLocal(int32_t node, const Path& path, Route& route) const {
  const auto base = static_cast<LinkId>(node) * static_cast<LinkId>(local_links_.size());
  for (uint32_t link : path) route.links.push_back(base + link);
}

void Topology::FindRouteAcross(int32_t from_node, int32_t from, int32_t to_node, int32_t to,
                               Route& route) const {
  const NodeSpec& node = spec_.node;
  if (node.nics == 0) {
    fabric_->AppendRoute(from_node, to_node, fabric_base_, route.links);
    return;
  }
  int32_t exit = from;
  const int32_t to_nic = node.nic_affinity[static_cast<size_t>(to)];
  if (spec_.fabric.kind == FabricKind::kRail && spec_.fabric.rail_relay &&
      node.nic_affinity[static_cast<size_t>(from)] != to_nic) {
    // Move to the device of this node that sits on the destination's rail, then stay on the rail.
    const auto found = std::find(node.nic_affinity.begin(), node.nic_affinity.end(), to_nic);
    exit = static_cast<int32_t>(found - node.nic_affinity.begin());
    AppendLocal(from_node, path(from, exit), route);
  }
  AppendLocal(from_node, to_nic_[static_cast<size_t>(exit)], route);
  fabric_->AppendRoute(from_node * node.nics + node.nic_affinity[static_cast<size_t>(exit)],
                       to_node * node.nics + to_nic, fabric_base_, route.links);
  AppendLocal(to_node, from_nic_[static_cast<size_t>(to)], route);
}

void Topology::FindRoute(DeviceId from, DeviceId to, Route& route) const {
  FORETRACE_CHECK(from >= 0 && from < device_count() && to >= 0 && to < device_count());
  route.links.clear();
  route.latency = SimTime();
  if (from == to) return;
  const int32_t per_node = spec_.node.devices;
  const int32_t a = from / per_node;
  const int32_t b = to / per_node;
  if (a == b) {
    AppendLocal(a, path(from % per_node, to % per_node), route);
  } else {
    FindRouteAcross(a, from % per_node, b, to % per_node, route);
  }
  for (LinkId link : route.links) route.latency += latency(link);
}

}  // namespace foretrace
