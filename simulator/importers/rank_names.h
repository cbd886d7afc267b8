#pragma once
// What the names of files and folders say of ranks.

#include <cstdint>
#include <optional>
#include <string_view>

namespace foretrace {

// "rank3", "worker_3": the number after a word for a rank; `name` in lower case.
std::optional<int32_t> NumberAfterRankWord(std::string_view name);
// The rank number in a file's name; nullopt when there is none.
std::optional<int32_t> RankFromFileName(std::string_view base_name);

}  // namespace foretrace
