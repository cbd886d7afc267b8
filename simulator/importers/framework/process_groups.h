#pragma once
// Process groups as PyTorch lists them in any of its recordings: `[{"pg_name": "0", "pg_desc":
// "default_pg", "ranks": [0, 1], ...}]`.

#include <rapidjson/document.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "simulator/trace/rank_trace.h"

namespace foretrace {

// A whole number, or text of one.
std::optional<int64_t> IntegerMember(const rapidjson::Value& object, const char* key);
// Text, or a whole number as text; empty where there is neither.
std::string TextMember(const rapidjson::Value& object, const char* key);

// Ranks by their place in the group: a list, text of one, or an object from rank to place. Nullopt
// where these say nothing ("[0, 1, ..., 63]", negative ranks).
std::optional<std::vector<int32_t>> ReadRanks(const rapidjson::Value& ranks);

// An object of the list. Members are empty where it has none that can be read.
ProcessGroup ReadGroup(const rapidjson::Value& entry);

// The list with whatever is around it: Chakra's traces quote it as a string in a list. Appends to
// `groups`; false when there is no such list or it is malformed.
bool ParseProcessGroups(std::string_view text, std::vector<ProcessGroup>& groups);

}  // namespace foretrace
