#include "simulator/importers/pytorch_et/process_groups.h"

#include <rapidjson/document.h>

#include <algorithm>
#include <map>
#include <string>

#include "simulator/importers/json/text.h"

namespace foretrace::pytorch_et {
namespace {

std::string Text(const rapidjson::Value& object, const char* key) {
  const auto it = object.FindMember(key);
  if (it == object.MemberEnd()) return {};
  if (it->value.IsString()) return {it->value.GetString(), it->value.GetStringLength()};
  if (it->value.IsInt64()) return std::to_string(it->value.GetInt64());
  return {};
}

std::vector<int32_t> Ranks(const rapidjson::Value& group) {
  std::vector<int32_t> ranks;
  const auto it = group.FindMember("ranks");
  if (it == group.MemberEnd()) return ranks;
  if (it->value.IsArray()) {
    for (const auto& rank : it->value.GetArray()) {
      if (!rank.IsInt() || rank.GetInt() < 0) return {};
      ranks.push_back(rank.GetInt());
    }
  } else if (it->value.IsObject()) {
    std::map<int64_t, int32_t> by_group_rank;
    for (const auto& entry : it->value.GetObject()) {
      const auto rank = json::ParseInteger({entry.name.GetString(), entry.name.GetStringLength()});
      if (!rank || *rank < 0 || *rank > INT32_MAX || !entry.value.IsInt64()) return {};
      by_group_rank.emplace(entry.value.GetInt64(), static_cast<int32_t>(*rank));
    }
    for (const auto& [position, rank] : by_group_rank) ranks.push_back(rank);
  }
  return ranks;
}

}  // namespace

void AddProcessGroups(std::string_view json_text, std::vector<ProcessGroup>& groups,
                      int32_t& world_size) {
  rapidjson::Document document;
  document.Parse<rapidjson::kParseIterativeFlag>(json_text.data(), json_text.size());
  if (document.HasParseError() || !document.IsArray()) return;
  for (const auto& entry : document.GetArray()) {
    if (!entry.IsObject()) continue;
    ProcessGroup group;
    group.name = Text(entry, "pg_name");
    group.description = Text(entry, "pg_desc");
    group.ranks = Ranks(entry);
    if (group.name.empty()) continue;
    const auto size = entry.FindMember("group_size");
    if (size != entry.MemberEnd() && size->value.IsInt() && group.ranks.empty()) {
      world_size = std::max(world_size, size->value.GetInt());
    }
    groups.push_back(std::move(group));
  }
}

}  // namespace foretrace::pytorch_et
