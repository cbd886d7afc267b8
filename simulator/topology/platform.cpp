#include "simulator/topology/platform.h"

#include <array>

#include "simulator/base/enum_names.h"

namespace foretrace {

std::string_view Name(LinkClass link_class) {
  static constexpr std::array<std::string_view, 3> kNames = {"nvlink", "pcie", "network"};
  return EnumName(kNames, link_class);
}

std::string_view Name(InterconnectKind kind) {
  static constexpr std::array<std::string_view, 4> kNames = {"none", "switch", "mesh", "pcie_tree"};
  return EnumName(kNames, kind);
}

std::string_view Name(FabricKind kind) {
  static constexpr std::array<std::string_view, 6> kNames = {"none", "switch",    "fat_tree",
                                                             "rail", "dragonfly", "dimensions"};
  return EnumName(kNames, kind);
}

std::string_view Name(DimensionKind kind) {
  static constexpr std::array<std::string_view, 3> kNames = {"ring", "fully_connected", "switch"};
  return EnumName(kNames, kind);
}

std::string_view Name(Placement placement) {
  static constexpr std::array<std::string_view, 3> kNames = {"block", "round_robin", "list"};
  return EnumName(kNames, placement);
}

}  // namespace foretrace
