#pragma once
// The directed links of a platform and the routes over them. Links and routes are computed from the
// structure, not stored per pair, so a platform of a hundred thousand devices costs a few
// megabytes.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "simulator/topology/fabric.h"
#include "simulator/topology/platform.h"

namespace foretrace {

using DeviceId = int32_t;

// The links from one device to another in order of traversal. Empty for a device and itself.
struct Route {
  absl::InlinedVector<LinkId, 6> links;
  SimTime latency;  // the sum over `links`
};

class Topology {
 public:
  // Fails when the platform contradicts itself (a fat tree too small for its NICs, more ranks
  // placed than devices, ...).
  static absl::StatusOr<Topology> Create(PlatformSpec spec);

  const PlatformSpec& spec() const { return spec_; }
  int32_t device_count() const { return static_cast<int32_t>(spec_.devices()); }
  int32_t node_of(DeviceId device) const { return device / spec_.node.devices; }
  // Ranks that placement covers: all devices, or the length of the list.
  int32_t rank_count() const;
  // `rank` must be below rank_count().
  DeviceId DeviceOfRank(int32_t rank) const;
  // Device per member; an error names a member without a device.
  absl::StatusOr<std::vector<DeviceId>> DevicesOf(std::span<const int32_t> ranks) const;

  LinkId link_count() const { return fabric_base_ + fabric_->link_count(); }
  LinkSpec link(LinkId id) const;
  // Of payload: bandwidth x parallel links x efficiency.
  Bandwidth link_rate(LinkId id) const;
  std::string LinkName(LinkId id) const;
  void FindRoute(DeviceId from, DeviceId to, Route& route) const;
  // As `Fabric::Interchangeable` and `Fabric::Orbit`, with the links within nodes.
  bool InterchangeableNodes(int32_t nodes) const { return fabric_->Interchangeable(nodes); }
  LinkOrbit Orbit(LinkId link, int32_t nodes) const;

  // Parallel NVLinks (or other mesh links) between two devices of one node; 0: none.
  int32_t MeshLinks(int32_t a, int32_t b) const;

 private:
  struct LocalLink {
    LinkSpec spec;
    std::string name;
  };
  using Path = absl::InlinedVector<uint32_t, 4>;  // indices into local_links_

  explicit Topology(PlatformSpec spec);
  void BuildNode();
  void BuildPcie();
  Path PciePath(int32_t from, int32_t to) const;
  Path MeshPath(int32_t from, int32_t to) const;
  void AppendLocal(int32_t node, const Path& path, Route& route) const;
  void FindRouteAcross(int32_t from_node, int32_t from, int32_t to_node, int32_t to,
                       Route& route) const;
  const Path& path(int32_t from, int32_t to) const {
    return paths_[static_cast<size_t>(from * spec_.node.devices + to)];
  }
  SimTime latency(LinkId id) const;

  PlatformSpec spec_;
  std::vector<LocalLink> local_links_;  // of one node; every node has the same
  std::vector<Path> paths_;             // device x device within a node
  std::vector<Path> to_nic_;            // per device
  std::vector<Path> from_nic_;
  int32_t pcie_up_ = -1;  // first of the device-to-switch links; -1: no PCIe
  LinkId fabric_base_ = 0;
  std::unique_ptr<Fabric> fabric_;
};

}  // namespace foretrace
