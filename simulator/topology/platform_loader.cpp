#include "simulator/topology/platform_loader.h"

#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>

#include "absl/strings/numbers.h"
#include "simulator/base/enum_names.h"
#include "simulator/base/error.h"
#include "simulator/base/shipped.h"
#include "simulator/base/status_macros.h"
#include "simulator/base/utf8.h"
#include "simulator/base/yaml_reader.h"
#include "simulator/hardware/accelerator_file.h"
#include "simulator/hardware/catalog.h"
#include "simulator/topology/fabric.h"
#include "simulator/topology/fabric_loader.h"

namespace foretrace {
namespace {

using Names = std::span<const std::string_view>;
constexpr double kMaxLatencyUs = 1e6;
constexpr double kMaxGBps = 1e6;
constexpr int32_t kMaxNetworkChannels = 64;

class Loader {
 public:
  explicit Loader(const YamlReader& root) : root_(root) {}

  absl::StatusOr<PlatformSpec> Load(const std::string& file) {
    spec_.file = file;
    root_.ExpectKeys(std::array<std::string_view, 10>{"name", "description", "tables", "links",
                                                      "node", "nodes", "max_nodes", "fabric",
                                                      "ranks", "library"});
    spec_.name = root_.String("name");
    spec_.description = root_.String("description", "");
    if (root_.Has("tables")) {
      for (const YamlReader& table : root_.Child("tables").Items()) {
        spec_.tables.push_back(table.AsString());
      }
    }
    LoadLinks(root_.Child("links"));
    LoadNode(root_.Child("node"));
    spec_.nodes = root_.Integer("nodes", 1, kMaxNodes, 1);
    if (root_.ok() && spec_.devices() > kMaxDevices) {
      root_.Fail("nodes", fmt::format("{} nodes of {} devices exceed the limit of {} devices",
                                      spec_.nodes, spec_.node.devices, kMaxDevices));
    }
    if (root_.Has("fabric")) LoadFabric(root_.Child("fabric"), spec_);
    if (root_.Has("ranks")) LoadPlacement(root_.Child("ranks"));
    if (root_.Has("library")) LoadLibrary(root_.Child("library"));
    if (root_.ok()) CheckConnected();
    if (root_.ok() && root_.Has("max_nodes")) LoadMaxNodes();
    if (!root_.ok()) return root_.status();
    return spec_;
  }

 private:
  void LoadLinks(const YamlReader& links) {
    for (const auto& [name, link] : links.Entries()) {
      link.ExpectKeys(std::array<std::string_view, 6>{"class", "bandwidth_GBps", "latency_us",
                                                      "efficiency", "source", "fitted"});
      LinkType type;
      type.name = name;
      type.link_class = static_cast<LinkClass>(link.Choice("class", EnumNames<LinkClass>()));
      type.bandwidth = Bandwidth::GBps(link.Number("bandwidth_GBps", 1e-9, kMaxGBps));
      type.latency = SimTime::FromUs(link.Number("latency_us", 0, kMaxLatencyUs));
      type.efficiency = link.Number("efficiency", 1e-6, 1, 1.0);
      type.source = link.String("source");
      type.fitted = link.String("fitted", "");
      spec_.links.push_back(std::move(type));
    }
    if (root_.ok() && spec_.links.empty()) root_.Fail("links", "at least one link type is needed");
  }

  void LoadNode(const YamlReader& node) {
    node.ExpectKeys(std::array<std::string_view, 7>{
        "devices", "accelerator", "device", "interconnect", "pcie", "nics", "host_memory_GBps"});
    if (node.Has("device")) {
      node.Fail(
          "device",
          "devices are files of topologies/accelerators/ (README.md there has the keys): name "
          "one with node.accelerator");
    }
    NodeSpec& out = spec_.node;
    out.devices = node.Integer("devices", 1, kMaxDevicesPerNode);
    if (node.Has("accelerator")) LoadAcceleratorOf(node);
    if (node.Has("interconnect")) LoadInterconnect(node.Child("interconnect"));
    if (node.Has("pcie")) {
      const YamlReader pcie = node.Child("pcie");
      pcie.ExpectKeys(std::array<std::string_view, 3>{"link", "devices_per_switch", "host_link"});
      out.pcie_link = FindLink(pcie, "link", spec_);
      out.devices_per_pcie_switch =
          pcie.Integer("devices_per_switch", 1, kMaxDevicesPerNode, out.devices);
      out.host_link = pcie.Has("host_link") ? FindLink(pcie, "host_link", spec_) : out.pcie_link;
    }
    if (out.interconnect == InterconnectKind::kPcieTree && out.pcie_link == kNoLinkType) {
      node.Fail("interconnect", "kind pcie_tree needs the section node.pcie");
    }
    if (node.Has("nics")) LoadNics(node.Child("nics"));
    if (node.Has("host_memory_GBps")) {
      out.host_memory = Bandwidth::GBps(node.Number("host_memory_GBps", 0.001, kMaxGBps));
    }
  }

  // By its name or alias; or a file, which is looked for beside the platform's.
  void LoadAcceleratorOf(const YamlReader& node) {
    const std::string name = node.String("accelerator");
    if (!node.ok()) return;
    absl::StatusOr<Accelerator> found =
        name.ends_with(".yaml")
            ? LoadAccelerator(std::filesystem::path(spec_.file).parent_path() / name)
            : FindAccelerator(name);
    if (!found.ok()) return node.Fail("accelerator", std::string(found.status().message()));
    spec_.node.accelerator = *std::move(found);
  }

  // A link as fast as one of the several that the device has is hardly all of its links.
  void CheckLinkCount(const YamlReader& interconnect) const {
    const NodeSpec& node = spec_.node;
    const DeviceLinks& links = node.accelerator.links;
    if (!interconnect.ok() || interconnect.Has("links_per_device") || links.links < 2) return;
    const Bandwidth one = spec_.links[static_cast<size_t>(node.interconnect_link)].bandwidth;
    if (one.gbps() > 1.25 * links.bandwidth.gbps()) return;
    interconnect.Fail("links_per_device",
                      fmt::format("missing: {} has {} links of {:g} GB/s; write that number, or 1",
                                  node.accelerator.name, links.links, links.bandwidth.gbps()));
  }

  void LoadInterconnect(const YamlReader& interconnect) {
    interconnect.ExpectKeys(
        std::array<std::string_view, 4>{"kind", "link", "links_per_device", "edges"});
    NodeSpec& out = spec_.node;
    out.interconnect =
        static_cast<InterconnectKind>(interconnect.Choice("kind", EnumNames<InterconnectKind>()));
    if (out.interconnect == InterconnectKind::kSwitch) {
      out.interconnect_link = FindLink(interconnect, "link", spec_);
      CheckLinkCount(interconnect);
      out.links_per_device = interconnect.Integer("links_per_device", 1, 1024, 1);
    } else if (out.interconnect == InterconnectKind::kMesh) {
      out.interconnect_link = FindLink(interconnect, "link", spec_);
      for (const YamlReader& edge : interconnect.Child("edges").Items()) {
        const auto items = edge.Items();
        if (edge.ok() && items.size() != 3) {
          edge.Fail("", "must be [device, device, number of links]");
        }
        if (!edge.ok()) return;
        MeshEdge parsed{items[0].AsInteger(0, out.devices - 1),
                        items[1].AsInteger(0, out.devices - 1), items[2].AsInteger(1, 64)};
        if (parsed.a == parsed.b) edge.Fail("", "joins a device with itself");
        for (const MeshEdge& other : out.mesh) {
          if (std::minmax(other.a, other.b) == std::minmax(parsed.a, parsed.b)) {
            edge.Fail("", "this pair is listed twice; give the number of links instead");
          }
        }
        out.mesh.push_back(parsed);
      }
    }
  }

  void LoadNics(const YamlReader& nics) {
    nics.ExpectKeys(std::array<std::string_view, 2>{"count", "affinity"});
    NodeSpec& out = spec_.node;
    out.nics = nics.Integer("count", 1, kMaxDevicesPerNode);
    if (nics.Has("affinity")) {
      out.nic_affinity = nics.Integers("affinity", 0, out.nics - 1);
      if (nics.ok() && static_cast<int32_t>(out.nic_affinity.size()) != out.devices) {
        nics.Fail("affinity", fmt::format("needs one NIC for each of the {} devices, has {}",
                                          out.devices, out.nic_affinity.size()));
      }
    } else {
      // Devices in order share the NICs evenly.
      for (int32_t d = 0; d < out.devices; ++d) {
        out.nic_affinity.push_back(static_cast<int32_t>(int64_t{d} * out.nics / out.devices));
      }
    }
  }

  void LoadMaxNodes() {
    spec_.max_nodes = root_.Integer("max_nodes", spec_.nodes, kMaxNodes);
    const FabricKind kind = spec_.fabric.kind;
    if (kind == FabricKind::kNone || kind == FabricKind::kDimensions ||
        spec_.placement == Placement::kList) {
      root_.Fail("max_nodes",
                 "a fabric of kind switch, fat_tree, rail or dragonfly can grow, and "
                 "ranks that are not placed by list");
    }
    if (!root_.ok()) return;
    const absl::Status grown = WithNodes(spec_, spec_.max_nodes).status();
    if (!grown.ok()) root_.Fail("max_nodes", std::string(grown.message()));
  }

  void LoadPlacement(const YamlReader& ranks) {
    ranks.ExpectKeys(std::array<std::string_view, 2>{"placement", "devices"});
    spec_.placement = static_cast<Placement>(ranks.Choice("placement", EnumNames<Placement>()));
    if (spec_.placement != Placement::kList || !ranks.ok()) return;
    spec_.placement_list = ranks.Integers("devices", 0, static_cast<int32_t>(spec_.devices() - 1));
    std::vector<int32_t> sorted = spec_.placement_list;
    std::sort(sorted.begin(), sorted.end());
    const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
    if (ranks.ok() && twice != sorted.end()) {
      ranks.Fail("devices", fmt::format("device {} is given to two ranks", *twice));
    }
  }

  void LoadLibrary(const YamlReader& library) {
    library.ExpectKeys(std::array<std::string_view, 8>{
        "gpu_generation", "release", "launch_us", "channel_GBps", "network_channel_GBps",
        "network_channels", "exchange_efficiency", "fitted"});
    constexpr std::array<std::string_view, 3> kGenerations = {"volta", "ampere", "hopper"};
    spec_.has_library = true;
    spec_.library.generation = static_cast<int32_t>(library.Choice("gpu_generation", kGenerations));
    if (library.Has("release")) spec_.library.release = Release(library);
    spec_.library.launch = SimTime::FromUs(library.Number("launch_us", 0, kMaxLatencyUs, 0));
    spec_.library.channel = Bandwidth::GBps(library.Number("channel_GBps", 1e-3, kMaxGBps, 0));
    spec_.library.network_channel =
        Bandwidth::GBps(library.Number("network_channel_GBps", 1e-3, kMaxGBps, 0));
    if (library.Has("network_channels")) {
      spec_.library.network_channels = library.Integer("network_channels", 1, kMaxNetworkChannels);
      if (!library.Has("network_channel_GBps")) {
        library.Fail("network_channels", "needs network_channel_GBps, what one of them passes");
      }
    }
    if (library.Has("channel_GBps") && spec_.node.interconnect != InterconnectKind::kSwitch) {
      library.Fail("channel_GBps", "is for nodes whose devices share a switch (node.interconnect)");
    }
    spec_.library.exchange = library.Number("exchange_efficiency", 1e-6, 1, 1);
    spec_.library.fitted = library.String("fitted", "");
  }

  // "2.29" as 229; the default where it is none.
  int32_t Release(const YamlReader& library) const {
    const std::string text = library.String("release");
    int32_t minor = 0;
    const char* end = text.data() + text.size();
    const bool major = text.starts_with("2.");
    const auto parsed = std::from_chars(text.data() + (major ? 2 : 0), end, minor);
    if (!major || parsed.ec != std::errc() || parsed.ptr != end || minor < 1 || minor > 99) {
      library.Fail("release", fmt::format("'{}' is no release of NCCL 2, such as 2.29", text));
      return spec_.library.release;
    }
    return 200 + minor;
  }

  // Every pair of devices must have a route.
  void CheckConnected() {
    const NodeSpec& node = spec_.node;
    if (spec_.nodes > 1 && spec_.fabric.kind == FabricKind::kNone) {
      root_.Fail("nodes", "more than one node needs the section fabric");
    }
    if (spec_.nodes > 1 && node.nics == 0 && spec_.fabric.kind == FabricKind::kRail) {
      root_.Fail("fabric", "a rail fabric needs node.nics");
    }
    if (node.devices == 1) return;
    if (node.interconnect == InterconnectKind::kNone) {
      root_.Fail("node", "devices of a node cannot reach each other: add node.interconnect");
    }
    if (node.interconnect != InterconnectKind::kMesh || node.pcie_link != kNoLinkType) return;
    std::vector<int32_t> group(static_cast<size_t>(node.devices));
    for (int32_t d = 0; d < node.devices; ++d) group[static_cast<size_t>(d)] = d;
    for (int32_t pass = 0; pass < node.devices; ++pass) {
      for (const MeshEdge& edge : node.mesh) {
        auto& a = group[static_cast<size_t>(edge.a)];
        auto& b = group[static_cast<size_t>(edge.b)];
        a = b = std::min(a, b);
      }
    }
    for (int32_t d = 0; d < node.devices; ++d) {
      if (group[static_cast<size_t>(d)] != 0) {
        root_.Fail("node", fmt::format("device {} is not reachable from device 0 over the mesh: "
                                       "add edges or the section node.pcie",
                                       d));
        return;
      }
    }
  }

  YamlReader root_;
  PlatformSpec spec_;
};

absl::StatusOr<PlatformSpec> Load(const absl::StatusOr<YamlReader>& root, const std::string& file) {
  return LoadYaml<PlatformSpec>(
      root, file, [&](const YamlReader& reader) { return Loader(reader).Load(file); });
}

}  // namespace

absl::StatusOr<PlatformSpec> LoadPlatform(const std::string& file) {
  return Load(ReadYamlFile(file), file);
}

absl::StatusOr<PlatformSpec> WithNodes(PlatformSpec spec, int32_t nodes) {
  if (nodes == spec.nodes) return spec;
  if (nodes < 1 || nodes > std::max(spec.nodes, spec.max_nodes)) {
    return InvalidInput("platform {} has {} nodes{}, not {}", spec.name, spec.nodes,
                        spec.max_nodes > 0 ? fmt::format(" and can have up to {}", spec.max_nodes)
                                           : "; its file allows no more (max_nodes)",
                        nodes);
  }
  spec.nodes = nodes;
  if (spec.devices() > kMaxDevices) {
    return InvalidInput("platform {}: {} nodes of {} devices exceed the limit of {} devices",
                        spec.name, nodes, spec.node.devices, kMaxDevices);
  }
  FORETRACE_RETURN_IF_ERROR(MakeFabric(spec).status());
  return spec;
}

namespace {

// What to say where no platform has the name: of a device's, which platforms have it.
absl::Status UnknownPlatform(const absl::Status& unknown, const std::string& name) {
  const absl::StatusOr<Accelerator> device = FindAccelerator(name);
  if (!device.ok()) return unknown;
  std::vector<std::string> have;
  for (const ShippedFile& file : ListShipped(kPlatforms)) {
    const absl::StatusOr<PlatformSpec> platform = LoadPlatform(file.path);
    if (platform.ok() && platform->node.accelerator.name == device->name) have.push_back(file.name);
  }
  return InvalidInput(
      "platform \"{}\": that is a GPU; {}; a platform of your own names it as node.accelerator "
      "(topologies/README.md)",
      name,
      have.empty() ? "no platform here has it"
                   : fmt::format("platforms that have it: {}", fmt::join(have, ", ")));
}

}  // namespace

absl::StatusOr<PlatformSpec> FindPlatform(const std::string& argument, int64_t devices) {
  const size_t colon = argument.rfind(':');
  int32_t nodes = 0;
  std::string name = argument;
  if (colon != std::string::npos && access(argument.c_str(), R_OK) != 0) {
    const std::string count = argument.substr(colon + 1);
    if (!absl::SimpleAtoi(count, &nodes) || nodes < 1) {
      return InvalidInput("platform \"{}\": '{}' is no number of nodes; expected NAME:NODES",
                          Excerpt(argument, 60), Excerpt(count, 20));
    }
    name.resize(colon);
  }
  const absl::StatusOr<std::string> file = FindShipped(kPlatforms, name);
  if (!file.ok()) return UnknownPlatform(file.status(), name);
  FORETRACE_ASSIGN_OR_RETURN(PlatformSpec spec, LoadPlatform(*file));
  if (nodes == 0 && devices > spec.devices()) {
    const int64_t needed = (devices + spec.node.devices - 1) / spec.node.devices;
    if (needed <= spec.max_nodes) {
      nodes = static_cast<int32_t>(needed);
    } else if (spec.max_nodes > 0) {
      return Infeasible(
          "platform {} has {} devices, and up to {} on {} nodes (max_nodes of its file), not {}",
          spec.name, spec.devices(), int64_t{spec.max_nodes} * spec.node.devices, spec.max_nodes,
          devices);
    }
  }
  return nodes == 0 ? spec : WithNodes(std::move(spec), nodes);
}

absl::StatusOr<PlatformSpec> ParsePlatform(const std::string& text, const std::string& name) {
  return Load(ParseYamlText(text, name), name);
}

}  // namespace foretrace
