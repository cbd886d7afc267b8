#pragma once
// Comma-separated text (RFC 4180).

#include <fmt/format.h>

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace foretrace {

// A line of fields with its end: those that hold commas, quotes or line breaks stand in quotes.
std::string CsvLine(std::span<const std::string> fields);
template <typename... Fields>
std::string CsvLineOf(const Fields&... fields) {
  const std::string texts[] = {fmt::format("{}", fields)...};
  return CsvLine(texts);
}

// Fields of one line: a field may stand in double quotes, within
// which a doubled quote is one. Spaces and carriage returns at the line's end are dropped.
std::vector<std::string> SplitCsvLine(std::string_view line, char separator = ',');
// What separates the fields of a table with this first line: ';' or tabs where there is no comma.
char SeparatorOf(std::string_view line);

}  // namespace foretrace
