#include "simulator/importers/process_group_table.h"

#include <rapidjson/document.h>
#include <rapidjson/error/en.h>

#include <string>

#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/importers/framework/process_groups.h"

namespace foretrace {
namespace {

// The parser allocates for what it has read, never for what the text claims, and with this flag it
// does not recurse.
constexpr unsigned kFlags = rapidjson::kParseIterativeFlag;
// Far above any job's table; a trace given by mistake is refused before it is parsed.
constexpr size_t kMaxTable = size_t{64} << 20;

}  // namespace

bool LooksLikeProcessGroupTable(std::string_view prefix) {
  // {"NAME": [ and then a number or the end of the list.
  const auto skip = [&prefix](char expected) {
    const size_t at = prefix.find_first_not_of(" \t\r\n");
    if (at == std::string_view::npos || prefix[at] != expected) return false;
    prefix.remove_prefix(at + 1);
    return true;
  };
  if (!skip('{') || !skip('"')) return false;
  const size_t quote = prefix.find('"');
  if (quote == std::string_view::npos || quote > 256) return false;
  prefix.remove_prefix(quote + 1);
  if (!skip(':') || !skip('[')) return false;
  const size_t at = prefix.find_first_not_of(" \t\r\n");
  return at != std::string_view::npos &&
         (prefix[at] == ']' || (prefix[at] >= '0' && prefix[at] <= '9'));
}

absl::StatusOr<std::vector<ProcessGroup>> ParseProcessGroupTable(std::string_view json,
                                                                 std::string_view source) {
  if (json.size() > kMaxTable) {
    return InvalidInput("{}: {} bytes are too many for a table of process groups", source,
                        json.size());
  }
  rapidjson::Document document;
  document.Parse<kFlags>(json.data(), json.size());
  if (document.HasParseError()) {
    return InvalidInput("{}: at byte {}: {}", source, document.GetErrorOffset(),
                        rapidjson::GetParseError_En(document.GetParseError()));
  }
  if (!document.IsObject()) {
    return InvalidInput("{}: expected process groups as {{\"NAME\": [RANK, ...], ...}}", source);
  }
  std::vector<ProcessGroup> groups;
  for (const auto& member : document.GetObject()) {
    ProcessGroup group;
    group.name = {member.name.GetString(), member.name.GetStringLength()};
    std::optional<std::vector<int32_t>> ranks;
    if (member.value.IsArray()) ranks = ReadRanks(member.value);
    if (!ranks) {
      return InvalidInput("{}: process group \"{}\" is not a list of ranks", source, group.name);
    }
    group.ranks = *std::move(ranks);
    groups.push_back(std::move(group));
  }
  return groups;
}

absl::StatusOr<std::vector<ProcessGroup>> ReadProcessGroupTable(ByteSource& input) {
  std::string text;
  while (text.size() <= kMaxTable) {
    FORETRACE_ASSIGN_OR_RETURN(const std::string_view chunk, input.Next());
    if (chunk.empty()) break;
    text.append(chunk);
  }
  return ParseProcessGroupTable(text, input.name());
}

}  // namespace foretrace
