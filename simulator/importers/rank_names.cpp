#include "simulator/importers/rank_names.h"

#include <string>

#include "simulator/base/enum_names.h"

namespace foretrace {
namespace {

constexpr int64_t kMaxRankInName = 10'000'000;  // a larger number in a name is a time or an id

bool IsLetter(char c) { return c >= 'a' && c <= 'z'; }

std::optional<int32_t> NumberAt(std::string_view name, size_t at) {
  int64_t value = 0;
  size_t end = at;
  for (; end < name.size() && name[end] >= '0' && name[end] <= '9'; ++end) {
    value = value * 10 + (name[end] - '0');
    if (value > kMaxRankInName) return std::nullopt;
  }
  return end > at ? std::optional<int32_t>(static_cast<int32_t>(value)) : std::nullopt;
}

}  // namespace

std::optional<int32_t> NumberAfterRankWord(std::string_view name) {
  for (const std::string_view word : {"rank", "worker", "host", "eg", "et", "npu", "gpu"}) {
    for (size_t at = name.find(word); at != std::string_view::npos; at = name.find(word, at + 1)) {
      if (at > 0 && IsLetter(name[at - 1])) continue;
      size_t after = at + word.size();
      if (after < name.size() && (name[after] == '_' || name[after] == '-')) ++after;
      if (const auto rank = NumberAt(name, after)) return rank;
    }
  }
  return std::nullopt;
}

std::optional<int32_t> RankFromFileName(std::string_view base_name) {
  const std::string name = LowerCase(base_name);
  if (const auto rank = NumberAfterRankWord(name)) return rank;
  // "llama.3.et", "trace_7.json.gz": the number before the extensions, unless it is the end of a
  // version ("1.0.2-chakra.0.0.4").
  std::string_view stem = name;
  bool stripped = true;
  while (stripped) {
    stripped = false;
    for (const std::string_view extension :
         {".gz", ".xz", ".zst", ".bz2", ".json", ".et", ".pt", ".trace", ".chakra"}) {
      if (stem.ends_with(extension)) {
        stem.remove_suffix(extension.size());
        stripped = true;
      }
    }
  }
  const size_t digits = stem.find_last_not_of("0123456789");
  const size_t begin = digits == std::string_view::npos ? 0 : digits + 1;
  if (begin == stem.size() || (begin > 0 && IsLetter(stem[begin - 1]))) return std::nullopt;
  if (begin >= 2 && stem[begin - 1] == '.') {
    const size_t before = stem.find_last_not_of("0123456789", begin - 2);
    const bool all_digits = before != begin - 2;
    if (all_digits && (before == std::string_view::npos || stem[before] == '.')) {
      return std::nullopt;
    }
  }
  return NumberAt(stem, begin);
}

}  // namespace foretrace
