#pragma once
// The section `fabric` of platform files: what joins nodes.

#include <string_view>

#include "simulator/base/yaml_reader.h"
#include "simulator/topology/platform.h"

namespace foretrace {

// The link type that `node` names under `key`, of those that `spec` has.
LinkTypeIndex FindLink(const YamlReader& node, std::string_view key, const PlatformSpec& spec);

// The nodes and links of `spec` are known. Errors are told to `fabric`.
void LoadFabric(const YamlReader& fabric, PlatformSpec& spec);

}  // namespace foretrace
