#pragma once
// The section `fabric` of platform files: what joins nodes.

#include <string_view>
#include <vector>

#include "simulator/base/yaml_reader.h"
#include "simulator/topology/platform.h"

namespace foretrace {

// Names of the enumerators of E, in order.
template <typename E>
std::vector<std::string_view> EnumNames() {
  std::vector<std::string_view> names;
  for (int i = 0; i < static_cast<int>(E::kCount); ++i) names.push_back(Name(static_cast<E>(i)));
  return names;
}

// The link type that `node` names under `key`, of those that `spec` has.
LinkTypeIndex FindLink(const YamlReader& node, std::string_view key, const PlatformSpec& spec);

// The nodes and links of `spec` are known. Errors are told to `fabric`.
void LoadFabric(const YamlReader& fabric, PlatformSpec& spec);

}  // namespace foretrace
