#include "simulator/topology/fabric_loader.h"

#include <array>

#include "simulator/base/enum_names.h"
#include "simulator/topology/fabric.h"
#include "simulator/topology/platform_loader.h"

namespace foretrace {
namespace {

void CheckFabricSize(const YamlReader& fabric, const PlatformSpec& spec) {
  const absl::Status made = MakeFabric(spec).status();
  if (made.ok()) return;
  const bool tree = !spec.fabric.levels.empty();
  fabric.Fail(tree ? "levels" : "kind", std::string(made.message()));
}

void LoadDimensions(const YamlReader& fabric, PlatformSpec& spec) {
  int64_t product = 1;
  for (const YamlReader& item : fabric.Child("dimensions").Items()) {
    item.ExpectKeys(std::array<std::string_view, 4>{"kind", "size", "link", "links"});
    DimensionSpec dim;
    dim.kind = static_cast<DimensionKind>(item.Choice("kind", EnumNames<DimensionKind>()));
    dim.size = item.Integer("size", 1, kMaxNodes);
    if (dim.kind == DimensionKind::kFullyConnected && dim.size > 4096) {
      item.Fail("size", "a fully connected dimension may have at most 4096 members");
    }
    dim.link = FindLink(item, "link", spec);
    dim.links = item.Integer("links", 1, 1024, 1);
    product *= dim.size;
    if (product > kMaxDevices) item.Fail("size", "the dimensions multiply to too many nodes");
    if (!item.ok()) return;
    spec.fabric.dimensions.push_back(dim);
  }
  if (fabric.ok() && product != spec.nodes) {
    fabric.Fail("dimensions",
                fmt::format("sizes multiply to {}, but there are {} nodes", product, spec.nodes));
  }
}

}  // namespace

LinkTypeIndex FindLink(const YamlReader& node, std::string_view key, const PlatformSpec& spec) {
  const std::string name = node.String(key);
  if (!node.ok()) return kNoLinkType;
  std::string known;
  for (size_t i = 0; i < spec.links.size(); ++i) {
    if (spec.links[i].name == name) return static_cast<LinkTypeIndex>(i);
    known += (known.empty() ? "" : ", ") + spec.links[i].name;
  }
  node.Fail(key, fmt::format("'{}' is not one of the link types: {}", name, known));
  return kNoLinkType;
}

void LoadFabric(const YamlReader& fabric, PlatformSpec& spec) {
  fabric.ExpectKeys(std::array<std::string_view, 10>{
      "kind", "link", "levels", "cross_rail", "terminals_per_router", "routers_per_group",
      "local_link", "global_link", "dimensions", "note"});
  FabricSpec& out = spec.fabric;
  out.kind = static_cast<FabricKind>(fabric.Choice("kind", EnumNames<FabricKind>()));
  switch (out.kind) {
    case FabricKind::kSwitch:
      out.link = FindLink(fabric, "link", spec);
      break;
    case FabricKind::kFatTree:
    case FabricKind::kRail:
      out.link = FindLink(fabric, "link", spec);
      for (const YamlReader& level : fabric.Child("levels").Items()) {
        level.ExpectKeys(std::array<std::string_view, 2>{"radix", "oversubscription"});
        out.levels.push_back(
            {level.Integer("radix", 1, 1 << 20), level.Number("oversubscription", 1, 1e3, 1)});
      }
      if (fabric.ok() && out.levels.empty()) fabric.Fail("levels", "needs at least one level");
      if (fabric.ok() && out.levels.size() > 8) fabric.Fail("levels", "more than 8 levels");
      if (fabric.ok() && out.levels.back().oversubscription > 1) {
        fabric.Fail("levels",
                    "oversubscription of the last level would change nothing, as its switch has no "
                    "uplinks; give it to the level whose uplinks are thinner");
      }
      if (fabric.Has("cross_rail")) {
        constexpr std::array<std::string_view, 2> kWays = {"spine", "relay"};
        out.rail_relay = fabric.Choice("cross_rail", kWays) == 1;
      }
      break;
    case FabricKind::kDragonfly:
      out.link = FindLink(fabric, "link", spec);
      out.terminals_per_router = fabric.Integer("terminals_per_router", 1, 4096);
      out.routers_per_group = fabric.Integer("routers_per_group", 1, 4096);
      out.local_link = FindLink(fabric, "local_link", spec);
      out.global_link = FindLink(fabric, "global_link", spec);
      break;
    case FabricKind::kDimensions:
      LoadDimensions(fabric, spec);
      break;
    default:
      break;
  }
  if (fabric.ok()) CheckFabricSize(fabric, spec);
}

}  // namespace foretrace
