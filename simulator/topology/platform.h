#pragma once
// A platform as its YAML file states it: link types, the node, the fabric between nodes, and how
// ranks are placed. Pure values; Topology builds links and routes from them.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "simulator/base/time.h"
#include "simulator/base/units.h"
#include "simulator/hardware/accelerator.h"

namespace foretrace {

enum class LinkClass : uint8_t { kNvlink, kPcie, kNetwork, kCount };
std::string_view Name(LinkClass link_class);

struct LinkType {
  std::string name;
  LinkClass link_class = LinkClass::kNetwork;
  Bandwidth bandwidth;    // of one link in one direction, as the vendor states it
  SimTime latency;        // paid once per traversal, outside bandwidth sharing
  double efficiency = 1;  // share of `bandwidth` that payload reaches
  std::string source;     // where the values were published
  std::string fitted;     // command, data and date, when latency or efficiency were fitted
  Bandwidth payload_rate() const {
    return Bandwidth::BytesPerSecond(bandwidth.bytes_per_second() * efficiency);
  }
};

// Index into PlatformSpec::links.
using LinkTypeIndex = int32_t;
inline constexpr LinkTypeIndex kNoLinkType = -1;

enum class InterconnectKind : uint8_t { kNone, kSwitch, kMesh, kPcieTree, kCount };
std::string_view Name(InterconnectKind kind);

// `count` parallel full-duplex links between two devices of a node.
struct MeshEdge {
  int32_t a = 0;
  int32_t b = 0;
  int32_t count = 1;
};

struct NodeSpec {
  int32_t devices = 1;
  Accelerator accelerator;  // without a name: not stated
  InterconnectKind interconnect = InterconnectKind::kNone;
  LinkTypeIndex interconnect_link = kNoLinkType;
  int32_t links_per_device = 1;  // kSwitch: parallel links into the switch
  std::vector<MeshEdge> mesh;    // kMesh
  // The PCIe tree: devices hang off switches, switches off the host. Also the way between mesh
  // devices without a direct link, and the way to the NICs.
  LinkTypeIndex pcie_link = kNoLinkType;
  int32_t devices_per_pcie_switch = 1;
  LinkTypeIndex host_link = kNoLinkType;  // PCIe switch to host; kNoLinkType: as pcie_link
  Bandwidth host_memory;                  // of all of the host's DRAM; zero: not stated
  int32_t nics = 0;
  std::vector<int32_t> nic_affinity;  // one NIC per device
};

enum class FabricKind : uint8_t {
  kNone,
  kSwitch,
  kFatTree,
  kRail,
  kDragonfly,
  kDimensions,
  kCount
};
std::string_view Name(FabricKind kind);

// One level of a fat tree, from the NICs up: `radix` children share a switch, whose uplinks carry
// the sum of the children's bandwidth divided by `oversubscription`. Uplinks of one switch are one
// pipe: adaptive routing is assumed to balance them.
struct FatTreeLevel {
  int32_t radix = 1;
  double oversubscription = 1;
};

enum class DimensionKind : uint8_t { kRing, kFullyConnected, kSwitch, kCount };
std::string_view Name(DimensionKind kind);

// A one-dimensional network; dimensions compose as in ASTRA-sim and DFModel (section IV-C), the
// first varying fastest over ports. A 3D torus is three rings.
struct DimensionSpec {
  DimensionKind kind = DimensionKind::kRing;
  int32_t size = 1;
  LinkTypeIndex link = kNoLinkType;
  int32_t links = 1;  // parallel links per connection
};

struct FabricSpec {
  FabricKind kind = FabricKind::kNone;
  LinkTypeIndex link = kNoLinkType;         // NIC to first switch, and unit of the links above
  std::vector<FatTreeLevel> levels;         // kFatTree, and kRail (the tree of every rail)
  bool rail_relay = true;                   // kRail: cross-rail traffic first moves inside the node
  int32_t terminals_per_router = 1;         // kDragonfly
  int32_t routers_per_group = 1;            // kDragonfly
  LinkTypeIndex local_link = kNoLinkType;   // kDragonfly, router to router of a group
  LinkTypeIndex global_link = kNoLinkType;  // kDragonfly, group to group
  std::vector<DimensionSpec> dimensions;    // kDimensions
};

enum class Placement : uint8_t { kBlock, kRoundRobin, kList, kCount };
std::string_view Name(Placement placement);

// The constants of the communication library that link types do not carry.
struct CollectiveLibrary {
  // GPU generation as NCCL's tuner distinguishes it: 0 Volta, 1 Ampere, 2 Hopper.
  int32_t generation = 1;
  // 100 x major + minor of the release whose rules differ: 229 for 2.29.
  int32_t release = 223;
  SimTime launch;  // once per collective: kernel start and the first handshake
  // What a channel copies with all warps of a collective, from one buffer to another. 0: not
  // known; the links' efficiency then stands for what channels leave of them too.
  Bandwidth channel;
  // What a channel sends to a peer on another node while it receives as much. 0: what copying and
  // the NIC take of it one after the other.
  Bandwidth network_channel;
  // Channels that NCCL gives a communicator of several nodes, as its log has them: rings and trees
  // pass so many times `network_channel` between nodes, whatever NICs there are. 0: as these allow.
  int32_t network_channels = 0;
  // What an all-to-all of three ranks or more in one node reaches of its NVLinks, whose switches'
  // ports then carry messages of several peers at once.
  double exchange = 1;
  std::string fitted;  // provenance of these
};

struct PlatformSpec {
  std::string file;
  std::string name;
  std::string description;
  std::vector<std::string> tables;  // sources of published runs that ran on it
  std::vector<LinkType> links;
  NodeSpec node;
  int32_t nodes = 1;
  int32_t max_nodes = 0;  // the fabric is built for so many alike; 0: for `nodes`
  FabricSpec fabric;
  Placement placement = Placement::kBlock;
  std::vector<int32_t> placement_list;  // kList: device of each rank
  bool has_library = false;  // `library` describes NCCL on this platform; else links as they are
  CollectiveLibrary library;

  int64_t devices() const { return int64_t{nodes} * node.devices; }
};

}  // namespace foretrace
