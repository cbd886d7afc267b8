#include "simulator/importers/process_groups.h"

#include <set>

#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/base/yaml.h"
#include "simulator/trace/exchange_group.h"

namespace foretrace {
namespace {

absl::Status ReadRanks(const std::string& path, const YAML::Node& ranks, ProcessGroup& group) {
  std::set<int32_t> seen;
  for (const YAML::Node& rank : ranks) {
    const auto value = rank.as<int32_t>();
    if (value < 0 || !seen.insert(value).second) {
      return InvalidInput("{}:{}: rank {} is negative or stands twice", path, ranks.Mark().line + 1,
                          value);
    }
    group.ranks.push_back(value);
  }
  return absl::OkStatus();
}

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
  FORETRACE_RETURN_IF_ERROR(ReadRanks(path, node["ranks"], group));
  return group;
}

absl::StatusOr<ProcessGroup> ReadExchange(const std::string& path, const YAML::Node& node) {
  if (!node.IsSequence() || node.size() < 2) {
    return InvalidInput("{}:{}: an exchange is a list of the ranks that send to each other: [0, 4]",
                        path, node.Mark().line + 1);
  }
  ProcessGroup group;
  group.name = kExchangeGroup;
  FORETRACE_RETURN_IF_ERROR(ReadRanks(path, node, group));
  return group;
}

// A group that no communication names would change nothing.
absl::Status CheckNamed(const std::string& file, std::span<const ProcessGroup> groups,
                        const TraceStore& store) {
  const auto is_stream = [&store](std::string_view name) {
    for (const RankTrace& rank : store.ranks()) {
      for (const Lane& lane : rank.lanes()) {
        if (lane.label == name) return true;
      }
    }
    return false;
  };
  for (const ProcessGroup& group : groups) {
    const bool exchange = group.name == kExchangeGroup;
    if (exchange || store.strings().Find(group.name).valid() || is_stream(group.name)) continue;
    return InvalidInput(
        "{}: group \"{}\" would change nothing: no communication in the traces has that name; "
        "`foretrace inspect` lists the communicators",
        file, group.name);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<ProcessGroup>> LoadProcessGroups(const std::string& path) {
  FORETRACE_ASSIGN_OR_RETURN(const YAML::Node document, ReadYaml(path));
  try {
    const auto has_list = [&](const char* key) {
      return document.IsMap() && document[key] && document[key].IsSequence();
    };
    if (!has_list("groups") && !has_list("exchanges")) {
      return InvalidInput("{}: has no list \"groups\"", path);
    }
    std::vector<ProcessGroup> groups;
    for (const YAML::Node& node : document["exchanges"]) {
      FORETRACE_ASSIGN_OR_RETURN(ProcessGroup group, ReadExchange(path, node));
      groups.push_back(std::move(group));
    }
    for (const YAML::Node& node : document["groups"]) {
      FORETRACE_ASSIGN_OR_RETURN(ProcessGroup group, ReadGroup(path, node));
      groups.push_back(std::move(group));
    }
    return groups;
  } catch (const YAML::Exception& error) {
    return InvalidInput("{}:{}: {}", path, error.mark.line + 1, error.msg);
  }
}

absl::Status AddUserGroups(const std::string& file, std::vector<ProcessGroup> groups,
                           TraceStore& store) {
  if (groups.empty()) return absl::OkStatus();
  FORETRACE_RETURN_IF_ERROR(CheckNamed(file, groups, store));
  if (absl::Status set = store.SetProcessGroups(std::move(groups)); !set.ok()) {
    return InvalidInput("{}: {}", file, std::string(set.message()));
  }
  return absl::OkStatus();
}

}  // namespace foretrace
