#include "simulator/topology/describe.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <iterator>
#include <limits>

namespace foretrace {
namespace {

double Rate(const PlatformSpec& spec, LinkTypeIndex type) {
  return spec.links[static_cast<size_t>(type)].payload_rate().bytes_per_second();
}

// The smallest cut of the mesh into halves; for up to 16 devices.
double MeshBisection(const PlatformSpec& spec) {
  const int32_t n = spec.node.devices;
  if (n > 16) return 0;
  double best = std::numeric_limits<double>::infinity();
  for (uint32_t half = 0; half < (1u << n); ++half) {
    if (std::popcount(half) != n / 2) continue;
    double links = 0;
    for (const MeshEdge& edge : spec.node.mesh) {
      if ((half >> edge.a & 1u) != (half >> edge.b & 1u)) links += edge.count;
    }
    best = std::min(best, links);
  }
  return best * Rate(spec, spec.node.interconnect_link);
}

double NodeBisection(const PlatformSpec& spec) {
  const NodeSpec& node = spec.node;
  const double half = node.devices / 2;
  switch (node.interconnect) {
    case InterconnectKind::kSwitch:
      return half * node.links_per_device * Rate(spec, node.interconnect_link);
    case InterconnectKind::kMesh: {
      const double mesh = MeshBisection(spec);
      return mesh > 0 || node.pcie_link == kNoLinkType ? mesh : half * Rate(spec, node.pcie_link);
    }
    case InterconnectKind::kPcieTree: {
      const double switches =
          (node.devices + node.devices_per_pcie_switch - 1) / node.devices_per_pcie_switch;
      return switches < 2 ? half * Rate(spec, node.pcie_link)
                          : std::min(half * Rate(spec, node.pcie_link),
                                     std::max(1.0, switches / 2) * Rate(spec, node.host_link));
    }
    default:
      return 0;
  }
}

double DimensionBisection(const PlatformSpec& spec) {
  // Across the dimension whose cut is smallest: the others are copied whole into both halves.
  double best = std::numeric_limits<double>::infinity();
  for (const DimensionSpec& dim : spec.fabric.dimensions) {
    if (dim.size < 2) continue;
    const double copies = static_cast<double>(spec.nodes) / dim.size;
    const double half = dim.size / 2;
    double links = half;  // switch: each member's port
    if (dim.kind == DimensionKind::kRing) links = 2;
    if (dim.kind == DimensionKind::kFullyConnected) links = half * (dim.size - dim.size / 2);
    best = std::min(best, copies * links * dim.links * Rate(spec, dim.link));
  }
  return best;
}

double FabricBisection(const PlatformSpec& spec) {
  const double ports = static_cast<double>(spec.nodes / 2) * std::max(1, spec.node.nics);
  switch (spec.fabric.kind) {
    case FabricKind::kFatTree:
    case FabricKind::kRail: {
      double thinning = 1;
      double below = 1;
      for (const FatTreeLevel& level : spec.fabric.levels) {
        // A level matters when the halves lie under different switches of it.
        below *= level.radix;
        if (below >=
            static_cast<double>(spec.nodes) *
                (spec.fabric.kind == FabricKind::kRail ? 1 : std::max(1, spec.node.nics))) {
          break;
        }
        thinning *= level.oversubscription;
      }
      return ports * Rate(spec, spec.fabric.link) / thinning;
    }
    case FabricKind::kDragonfly: {
      const double groups =
          std::max(1.0, static_cast<double>(spec.nodes) * std::max(1, spec.node.nics) /
                            spec.fabric.terminals_per_router / spec.fabric.routers_per_group);
      if (groups < 2) return ports * Rate(spec, spec.fabric.link);
      return std::min(ports * Rate(spec, spec.fabric.link),
                      groups * groups / 4 * Rate(spec, spec.fabric.global_link));
    }
    case FabricKind::kDimensions:
      return DimensionBisection(spec);
    default:
      return ports * Rate(spec, spec.fabric.link);
  }
}

void DrawNode(const PlatformSpec& spec, std::string& out) {
  const NodeSpec& node = spec.node;
  auto to = std::back_inserter(out);
  fmt::format_to(to, "node: {} x {}\n", node.devices,
                 node.accelerator.name.empty() ? "device" : node.accelerator.name);
  const auto name = [&](LinkTypeIndex type) { return spec.links[static_cast<size_t>(type)].name; };
  if (node.interconnect == InterconnectKind::kSwitch) {
    fmt::format_to(to, "  ");
    for (int32_t d = 0; d < std::min(node.devices, 8); ++d) fmt::format_to(to, "[{}]", d);
    fmt::format_to(to, "{}\n   |  {} x {} each\n  ====== switch ======\n",
                   node.devices > 8 ? "..." : "", node.links_per_device,
                   name(node.interconnect_link));
  } else if (node.interconnect == InterconnectKind::kMesh) {
    fmt::format_to(to, "  parallel {} links between devices:\n      ",
                   name(node.interconnect_link));
    for (int32_t b = 0; b < node.devices; ++b) fmt::format_to(to, "{:>4}", b);
    for (int32_t a = 0; a < node.devices; ++a) {
      fmt::format_to(to, "\n  {:>4}", a);
      for (int32_t b = 0; b < node.devices; ++b) {
        int32_t count = 0;
        for (const MeshEdge& edge : node.mesh) {
          if (std::minmax(edge.a, edge.b) == std::minmax(a, b)) count = edge.count;
        }
        fmt::format_to(to, "{:>4}", a == b ? "x" : count == 0 ? "." : std::to_string(count));
      }
    }
    fmt::format_to(to, "\n");
  }
  if (node.pcie_link != kNoLinkType) {
    fmt::format_to(to, "  host -- {} --", name(node.host_link));
    for (int32_t first = 0; first < node.devices; first += node.devices_per_pcie_switch) {
      fmt::format_to(to, " <switch: {}-{}>", first,
                     std::min(node.devices, first + node.devices_per_pcie_switch) - 1);
    }
    fmt::format_to(to, "  (devices by {})\n", name(node.pcie_link));
  }
  for (int32_t nic = 0; nic < node.nics; ++nic) {
    fmt::format_to(to, "{}nic{} <-", nic % 4 == 0 ? "  " : "  ", nic);
    for (int32_t d = 0; d < node.devices; ++d) {
      if (node.nic_affinity[static_cast<size_t>(d)] == nic) fmt::format_to(to, " {}", d);
    }
    if (nic % 4 == 3 || nic + 1 == node.nics) fmt::format_to(to, "\n");
  }
}

void DrawFabric(const PlatformSpec& spec, std::string& out) {
  auto to = std::back_inserter(out);
  const FabricSpec& fabric = spec.fabric;
  fmt::format_to(to, "fabric: {}", Name(fabric.kind));
  if (fabric.kind == FabricKind::kDimensions) {
    for (const DimensionSpec& dim : fabric.dimensions) {
      fmt::format_to(to, " {}({})", Name(dim.kind), dim.size);
    }
  } else if (fabric.kind == FabricKind::kDragonfly) {
    fmt::format_to(to, ", {} terminals per router, {} routers per group",
                   fabric.terminals_per_router, fabric.routers_per_group);
  }
  fmt::format_to(to, ", {} nodes\n", spec.nodes);
  for (size_t l = fabric.levels.size(); l-- > 0;) {
    const double over = fabric.levels[l].oversubscription;
    fmt::format_to(to, "  {}[switch{}] {} children{}\n",
                   std::string(2 * (fabric.levels.size() - 1 - l), ' '), l + 1,
                   fabric.levels[l].radix,
                   over > 1 ? fmt::format(", uplinks {}:1 oversubscribed", over) : "");
  }
}

}  // namespace

Bandwidth BisectionBandwidth(const Topology& topology) {
  const PlatformSpec& spec = topology.spec();
  return Bandwidth::BytesPerSecond(spec.nodes > 1 ? FabricBisection(spec) : NodeBisection(spec));
}

int32_t Diameter(const Topology& topology) {
  size_t longest = 0;
  Route route;
  const int32_t per_node = topology.spec().node.devices;
  for (DeviceId from = 0; from < per_node; ++from) {
    for (DeviceId to = 0; to < topology.device_count(); ++to) {
      topology.FindRoute(from, to, route);
      longest = std::max(longest, route.links.size());
    }
  }
  return static_cast<int32_t>(longest);
}

std::string DescribeTopology(const Topology& topology, int32_t max_ranks) {
  const PlatformSpec& spec = topology.spec();
  std::string out;
  auto to = std::back_inserter(out);
  fmt::format_to(to, "platform {} ({})\n{}\n{} devices on {} nodes, {} directed links\n\n",
                 spec.name, spec.file, spec.description, topology.device_count(), spec.nodes,
                 topology.link_count());
  DrawNode(spec, out);
  if (spec.nodes > 1) DrawFabric(spec, out);
  fmt::format_to(to, "\n{:<16} {:>8} {:>12} {:>10} {:>10}\n", "link", "class", "GB/s", "latency us",
                 "efficiency");
  for (const LinkType& link : spec.links) {
    fmt::format_to(to, "{:<16} {:>8} {:>12.3f} {:>10.3f} {:>10.3f}\n", link.name,
                   Name(link.link_class), link.bandwidth.gbps(), link.latency.us(),
                   link.efficiency);
  }
  // Sentences, which are folded where a line of the table would be too wide.
  for (const LinkType& link : spec.links) {
    fmt::format_to(to, "{}: {}{}\n", link.name, link.source,
                   link.fitted.empty() ? "" : "; fitted: " + link.fitted);
  }
  fmt::format_to(to, "\nbisection bandwidth {:.1f} GB/s each way, diameter {} links\n\n",
                 BisectionBandwidth(topology).gbps(), Diameter(topology));
  fmt::format_to(to, "ranks ({} placement)\n{:>8} {:>8} {:>8} {:>8}\n", Name(spec.placement),
                 "rank", "device", "node", "local");
  for (int32_t r = 0; r < std::min(max_ranks, topology.rank_count()); ++r) {
    const DeviceId device = topology.DeviceOfRank(r);
    fmt::format_to(to, "{:>8} {:>8} {:>8} {:>8}\n", r, device, topology.node_of(device),
                   device % spec.node.devices);
  }
  if (max_ranks < topology.rank_count()) {
    fmt::format_to(to, "     ... {} more\n", topology.rank_count() - max_ranks);
  }
  return out;
}

}  // namespace foretrace
