#include "simulator/importers/chakra/process_groups.h"

#include <rapidjson/document.h>
#include <rapidjson/error/en.h>

#include <string>

#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"

namespace foretrace {
namespace {

// The parser allocates for what it has read, never for what the text claims, and with this flag it
// does not recurse.
constexpr unsigned kFlags = rapidjson::kParseIterativeFlag;
// Far above any job's table; a trace given by mistake is refused before it is parsed.
constexpr size_t kMaxTable = size_t{64} << 20;

// Far above any machine; keeps the size of the job from being taken from a damaged number.
constexpr int kMaxRank = 10'000'000;

bool ReadRanks(const rapidjson::Value& list, std::vector<int32_t>& ranks) {
  if (!list.IsArray()) return false;
  for (const rapidjson::Value& rank : list.GetArray()) {
    if (!rank.IsInt() || rank.GetInt() < 0 || rank.GetInt() > kMaxRank) return false;
    ranks.push_back(rank.GetInt());
  }
  return true;
}

std::string_view Text(const rapidjson::Value& value) {
  return {value.GetString(), value.GetStringLength()};
}

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
    group.name = Text(member.name);
    if (!ReadRanks(member.value, group.ranks)) {
      return InvalidInput("{}: process group \"{}\" is not a list of ranks", source, group.name);
    }
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

namespace chakra {

bool ParsePytorchProcessGroups(std::string_view text, std::vector<ProcessGroup>& groups) {
  const size_t begin = text.find("[{");
  const size_t end = text.rfind("}]");
  if (begin == std::string_view::npos || end == std::string_view::npos || end < begin) return false;
  std::string json(text.substr(begin, end + 2 - begin));
  // Inside a quoted string the quotes are escaped.
  std::erase(json, '\\');
  if (json.size() > kMaxTable) return false;
  rapidjson::Document document;
  document.Parse<kFlags>(json.data(), json.size());
  if (document.HasParseError() || !document.IsArray()) return false;
  for (const rapidjson::Value& entry : document.GetArray()) {
    if (!entry.IsObject()) return false;
    const auto name = entry.FindMember("pg_name");
    const auto ranks = entry.FindMember("ranks");
    if (name == entry.MemberEnd() || ranks == entry.MemberEnd()) return false;
    ProcessGroup group;
    if (name->value.IsString()) {
      group.name = Text(name->value);
    } else if (name->value.IsUint64()) {
      group.name = std::to_string(name->value.GetUint64());
    } else {
      return false;
    }
    const auto description = entry.FindMember("pg_desc");
    if (description != entry.MemberEnd() && description->value.IsString()) {
      group.description = Text(description->value);
    }
    if (!ReadRanks(ranks->value, group.ranks)) return false;
    groups.push_back(std::move(group));
  }
  return true;
}

}  // namespace chakra
}  // namespace foretrace
