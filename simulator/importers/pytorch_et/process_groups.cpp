#include "simulator/importers/pytorch_et/process_groups.h"

#include <rapidjson/document.h>

#include <algorithm>
#include <utility>

#include "simulator/importers/framework/process_groups.h"

namespace foretrace::pytorch_et {

void AddProcessGroups(std::string_view json_text, std::vector<ProcessGroup>& groups,
                      int32_t& world_size) {
  rapidjson::Document document;
  document.Parse<rapidjson::kParseIterativeFlag>(json_text.data(), json_text.size());
  if (document.HasParseError() || !document.IsArray()) return;
  for (const auto& entry : document.GetArray()) {
    if (!entry.IsObject()) continue;
    ProcessGroup group = ReadGroup(entry);
    if (group.name.empty()) continue;
    const auto size = entry.FindMember("group_size");
    if (size != entry.MemberEnd() && size->value.IsInt() && group.ranks.empty()) {
      world_size = std::max(world_size, size->value.GetInt());
    }
    groups.push_back(std::move(group));
  }
}

}  // namespace foretrace::pytorch_et
