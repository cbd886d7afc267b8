#include "simulator/importers/process_groups.h"

#include <set>

#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/base/yaml.h"

namespace foretrace {
namespace {

absl::StatusOr<ProcessGroup> ReadGroup(const std::string& path, const YAML::Node& node) {
  const auto fail = [&](std::string_view what) {
    return InvalidInput("{}:{}: {}; a group is {{name: \"1\", ranks: [0, 1]}}", path,
                        node.Mark().line + 1, what);
  };
  if (!node.IsMap() || !node["name"] || !node["name"].IsScalar()) {
    return fail("a group has no name");
  }
  ProcessGroup group;
  group.name = node["name"].as<std::string>();
  if (node["description"]) group.description = node["description"].as<std::string>();
  if (!node["ranks"] || !node["ranks"].IsSequence()) return fail("a group has no list of ranks");
  std::set<int32_t> seen;
  for (const YAML::Node& rank : node["ranks"]) {
    const auto value = rank.as<int32_t>();
    if (value < 0 || !seen.insert(value).second) {
      return fail(fmt::format("rank {} is negative or stands twice", value));
    }
    group.ranks.push_back(value);
  }
  return group;
}

}  // namespace

absl::StatusOr<std::vector<ProcessGroup>> LoadProcessGroups(const std::string& path) {
  FORETRACE_ASSIGN_OR_RETURN(const YAML::Node document, ReadYaml(path));
  try {
    if (!document.IsMap() || !document["groups"] || !document["groups"].IsSequence()) {
      return InvalidInput("{}: has no list \"groups\"", path);
    }
    std::vector<ProcessGroup> groups;
    for (const YAML::Node& node : document["groups"]) {
      FORETRACE_ASSIGN_OR_RETURN(ProcessGroup group, ReadGroup(path, node));
      groups.push_back(std::move(group));
    }
    return groups;
  } catch (const YAML::Exception& error) {
    return InvalidInput("{}:{}: {}", path, error.mark.line + 1, error.msg);
  }
}

}  // namespace foretrace
