#include "simulator/base/csv.h"

namespace foretrace {

std::string CsvLine(std::span<const std::string> fields) {
  // An empty line would have no field at all.
  if (fields.size() == 1 && fields.front().empty()) return "\"\"\n";
  std::string line;
  for (size_t i = 0; i < fields.size(); ++i) {
    if (i > 0) line += ',';
    const std::string& field = fields[i];
    // Spaces at a line's end are dropped where it is read.
    const bool quoted = field.find_first_of(",\"\r\n") != std::string::npos || field.ends_with(' ');
    if (quoted) line += '"';
    for (const char c : field) {
      if (c == '"') line += '"';
      line += c;
    }
    if (quoted) line += '"';
  }
  return line + "\n";
}

char SeparatorOf(std::string_view line) {
  for (const char separator : {',', ';', '\t'}) {
    if (line.find(separator) != std::string_view::npos) return separator;
  }
  return ',';
}

std::vector<std::string> SplitCsvLine(std::string_view line, char separator) {
  while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.remove_suffix(1);
  std::vector<std::string> fields(1);
  bool quoted = false;
  for (size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (c == '"' && quoted && i + 1 < line.size() && line[i + 1] == '"') {
      fields.back() += c;
      ++i;
    } else if (c == '"' && (quoted || fields.back().empty())) {
      quoted = !quoted;
    } else if (c == separator && !quoted) {
      fields.emplace_back();
    } else {
      fields.back() += c;
    }
  }
  return fields;
}

}  // namespace foretrace
