#include "simulator/sharding/table_csv.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <sstream>
#include <string_view>
#include <vector>

#include "simulator/base/csv.h"
#include "simulator/base/enum_names.h"
#include "simulator/base/error.h"
#include "simulator/base/input.h"
#include "simulator/base/status_macros.h"
#include "simulator/base/utf8.h"

namespace foretrace {
namespace {

struct Column {
  std::string_view key;
  std::array<std::string_view, 3> names;  // what its column may be called
  bool required = true;
  size_t at = std::string::npos;
};

// Without the spaces that lay them out.
std::vector<std::string> FieldsOf(std::string_view line, char separator) {
  std::vector<std::string> fields = SplitCsvLine(line, separator);
  for (std::string& field : fields) {
    const size_t first = std::min(field.find_first_not_of(" \t"), field.size());
    field = field.substr(first, field.find_last_not_of(" \t") + 1 - first);
  }
  return fields;
}

std::string Quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : OneLine(text)) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + '"';
}

absl::Status FindColumns(const std::string& path, const std::vector<std::string>& header,
                         std::array<Column, 6>& columns) {
  for (Column& column : columns) {
    for (size_t i = 0; i < header.size(); ++i) {
      if (std::ranges::find(column.names, LowerCase(header[i])) == column.names.end() ||
          header[i].empty()) {
        continue;
      }
      if (column.at != std::string::npos) {
        return InvalidInput("{}:1: two columns of '{}'", path, column.key);
      }
      column.at = i;
    }
    if (column.required && column.at == std::string::npos) {
      return InvalidInput(
          "{}:1: no column '{}'; a table of embedding tables has name, rows, dim, pooling (mean "
          "lookups of a sample) and zipf (0: rows are used alike)",
          path, column.key);
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<YamlReader> ReadTableCsv(const std::string& path) {
  FORETRACE_ASSIGN_OR_RETURN(std::string text, ReadTextFile(path, kMaxYamlBytes));
  RemoveByteOrderMark(text);
  std::istringstream in(text);
  std::string line;
  std::getline(in, line);
  const char separator = SeparatorOf(line);
  const std::vector<std::string> header = FieldsOf(line, separator);
  std::array<Column, 6> columns = {{{"name", {"name", "table"}},
                                    {"rows", {"rows", "num_embeddings", "hash_size"}},
                                    {"dim", {"dim", "embedding_dim", "emb_dim"}},
                                    {"pooling", {"pooling", "pooling_factor"}},
                                    {"zipf", {"zipf"}},
                                    {"dtype", {"dtype"}, false}}};
  FORETRACE_RETURN_IF_ERROR(FindColumns(path, header, columns));
  std::string yaml = "tables:";
  for (int number = 2; std::getline(in, line); ++number) {
    yaml += '\n';
    const std::vector<std::string> fields = FieldsOf(line, separator);
    if (fields.empty() || (fields.size() == 1 && fields[0].empty())) continue;
    if (fields.size() > header.size()) {
      return InvalidInput("{}:{}: {} fields, where the first line has {}", path, number,
                          fields.size(), header.size());
    }
    yaml += "  - {";
    for (const Column& column : columns) {
      if (column.at >= fields.size() || fields[column.at].empty()) continue;
      const std::string value = Quoted(fields[column.at]);
      yaml += column.key == "zipf" ? fmt::format("reuse: {{zipf: {}}}, ", value)
                                   : fmt::format("{}: {}, ", column.key, value);
    }
    yaml += '}';
  }
  if (yaml.find('{') == std::string::npos) {
    return InvalidInput("{}: no rows; a task has at least one table", path);
  }
  return ParseYamlText(yaml, path);
}

}  // namespace foretrace
