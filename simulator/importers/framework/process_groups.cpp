#include "simulator/importers/framework/process_groups.h"

#include <map>

#include "simulator/importers/json/text.h"

namespace foretrace {
namespace {

// Far above any job's list.
constexpr size_t kMaxList = size_t{64} << 20;
// Far above any machine; keeps the size of the job from being taken from a damaged number.
constexpr int64_t kMaxRank = 10'000'000;

std::string_view Text(const rapidjson::Value& value) {
  return {value.GetString(), value.GetStringLength()};
}

std::optional<std::vector<int32_t>> RanksOf(const std::vector<int64_t>& numbers) {
  std::vector<int32_t> ranks;
  for (const int64_t rank : numbers) {
    if (rank < 0 || rank > kMaxRank) return std::nullopt;
    ranks.push_back(static_cast<int32_t>(rank));
  }
  return ranks;
}

}  // namespace

std::optional<int64_t> IntegerMember(const rapidjson::Value& object, const char* key) {
  const auto it = object.FindMember(key);
  if (it == object.MemberEnd()) return std::nullopt;
  if (it->value.IsInt64()) return it->value.GetInt64();
  if (it->value.IsString()) return json::ParseInteger(Text(it->value));
  return std::nullopt;
}

std::string TextMember(const rapidjson::Value& object, const char* key) {
  const auto it = object.FindMember(key);
  if (it == object.MemberEnd()) return {};
  if (it->value.IsString()) return std::string(Text(it->value));
  if (it->value.IsInt64()) return std::to_string(it->value.GetInt64());
  return {};
}

std::optional<std::vector<int32_t>> ReadRanks(const rapidjson::Value& ranks) {
  std::vector<int64_t> numbers;
  if (ranks.IsArray()) {
    for (const auto& rank : ranks.GetArray()) {
      if (!rank.IsInt64()) return std::nullopt;
      numbers.push_back(rank.GetInt64());
    }
  } else if (ranks.IsString()) {
    const auto list = json::ParseIntegerList(Text(ranks));
    if (!list) return std::nullopt;
    numbers.assign(list->begin(), list->end());
  } else if (ranks.IsObject()) {
    std::map<int64_t, int64_t> by_place;
    for (const auto& entry : ranks.GetObject()) {
      const auto rank = json::ParseInteger(Text(entry.name));
      if (!rank || !entry.value.IsInt64()) return std::nullopt;
      by_place.emplace(entry.value.GetInt64(), *rank);
    }
    for (const auto& [place, rank] : by_place) numbers.push_back(rank);
  } else {
    return std::nullopt;
  }
  return RanksOf(numbers);
}

ProcessGroup ReadGroup(const rapidjson::Value& entry) {
  ProcessGroup group;
  group.name = TextMember(entry, "pg_name");
  group.description = TextMember(entry, "pg_desc");
  const auto ranks = entry.FindMember("ranks");
  if (ranks != entry.MemberEnd()) {
    group.ranks = ReadRanks(ranks->value).value_or(std::vector<int32_t>());
  }
  return group;
}

bool ParseProcessGroups(std::string_view text, std::vector<ProcessGroup>& groups) {
  const size_t begin = text.find("[{");
  const size_t end = text.rfind("}]");
  if (begin == std::string_view::npos || end == std::string_view::npos || end < begin) return false;
  std::string json(text.substr(begin, end + 2 - begin));
  // Inside a quoted string the quotes are escaped.
  std::erase(json, '\\');
  if (json.size() > kMaxList) return false;
  rapidjson::Document document;
  document.Parse<rapidjson::kParseIterativeFlag>(json.data(), json.size());
  if (document.HasParseError() || !document.IsArray()) return false;
  for (const rapidjson::Value& entry : document.GetArray()) {
    if (!entry.IsObject() || !entry.HasMember("pg_name")) return false;
    const auto ranks = entry.FindMember("ranks");
    if (ranks == entry.MemberEnd() || !ReadRanks(ranks->value)) return false;
    groups.push_back(ReadGroup(entry));
  }
  return true;
}

}  // namespace foretrace
