#include "simulator/console/csv_tables.h"

#include <rapidjson/document.h>

#include <algorithm>
#include <map>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "simulator/base/check.h"
#include "simulator/base/csv.h"
#include "simulator/base/status_macros.h"

namespace foretrace {
namespace {

using Value = rapidjson::Value;

std::string_view Text(const Value& value) { return {value.GetString(), value.GetStringLength()}; }

// Numbers are read as texts: they are written as they were.
std::string Plain(const Value& value) {
  if (value.IsString()) return std::string(Text(value));
  if (value.IsBool()) return value.GetBool() ? "true" : "false";
  return "";
}

// Columns in order of their first value.
class Table {
 public:
  void BeginRow() { rows_.emplace_back(); }
  void Set(const std::string& column, std::string value) {
    const auto [it, added] = columns_.try_emplace(column, names_.size());
    if (added) names_.push_back(column);
    std::vector<std::string>& row = rows_.back();
    if (row.size() <= it->second) row.resize(it->second + 1);
    row[it->second] = std::move(value);
  }
  std::string Format() const {
    std::string text = Line(names_);
    for (const std::vector<std::string>& row : rows_) text += Line(row);
    return text;
  }
  bool empty() const { return names_.empty(); }

 private:
  std::string Line(std::vector<std::string> fields) const {
    fields.resize(names_.size());
    return CsvLine(fields);
  }

  std::vector<std::string> names_;
  absl::flat_hash_map<std::string, size_t> columns_;
  std::vector<std::vector<std::string>> rows_;
};

class Tables {
 public:
  // The object's single values become columns of the table's last row; lists of objects in it
  // become tables. `at`: path of the table; `keys`: columns that say to which row of which table it
  // belongs.
  using Keys = std::vector<std::pair<std::string, std::string>>;
  void AddObject(const Value& object, Table& row, const std::string& prefix,
                 const std::string& path, const Keys& keys, bool of_list) {
    for (const auto& member : object.GetObject()) {
      const std::string name(Text(member.name));
      const std::string inner = path.empty() ? name : path + "." + name;
      if (member.value.IsObject()) {
        AddObject(member.value, row, prefix + name + ".", inner, keys, of_list);
      } else if (!member.value.IsArray()) {
        row.Set(prefix + name, Plain(member.value));
      } else if (of_list && IsPlain(member.value)) {
        row.Set(prefix + name, Joined(member.value));
      } else {
        AddList(member.value, inner, keys);
      }
    }
  }

  std::map<std::string, Table> found;

 private:
  static bool IsPlain(const Value& list) {
    return std::none_of(list.Begin(), list.End(),
                        [](const Value& v) { return v.IsObject() || v.IsArray(); });
  }
  static std::string Joined(const Value& list) {
    std::string text;
    for (const Value& v : list.GetArray()) text += (text.empty() ? "" : "; ") + Plain(v);
    return text;
  }

  void AddList(const Value& list, const std::string& path, const Keys& keys) {
    Table& table = found[path];  // std::map: stays where it is
    for (rapidjson::SizeType i = 0; i < list.Size(); ++i) {
      const Value& element = list[i];
      Keys within = keys;
      within.emplace_back(path + "[]", std::to_string(i));
      if (element.IsArray() && !IsPlain(element)) {
        AddList(element, path + ".list", within);
        continue;
      }
      table.BeginRow();
      for (const auto& [column, row] : keys) table.Set(column, row);
      if (element.IsObject()) {
        AddObject(element, table, "", path, within, true);
      } else {
        const size_t dot = path.rfind('.');
        const std::string name = dot == std::string::npos ? path : path.substr(dot + 1);
        table.Set(name, element.IsArray() ? Joined(element) : Plain(element));
      }
    }
  }
};

// A name for a file: what else a key holds becomes '_'.
std::string FileName(std::string_view path) {
  std::string name(path.substr(0, 200));
  for (char& c : name) {
    const bool kept = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                      c == '.' || c == '-' || c == '_';
    if (!kept) c = '_';
  }
  if (name.empty() || name.front() == '.') name.insert(0, "_");
  return name;
}

}  // namespace

std::vector<CsvTable> CsvTables(std::string_view command, const std::string& document) {
  rapidjson::Document parsed;
  parsed.Parse<rapidjson::kParseNumbersAsStringsFlag>(document.data(), document.size());
  FORETRACE_CHECK(!parsed.HasParseError() && parsed.IsObject());
  Tables tables;
  Table answer;
  answer.BeginRow();
  tables.AddObject(parsed, answer, "", "", {}, false);
  std::vector<CsvTable> out;
  const std::string name = FileName(command);
  out.push_back({name, answer.Format()});
  std::map<std::string, int> used = {{name, 1}};
  for (const auto& [path, table] : tables.found) {
    if (table.empty()) continue;
    const std::string file = FileName(path);
    const int count = ++used[file];
    out.push_back({count == 1 ? file : file + "-" + std::to_string(count), table.Format()});
  }
  return out;
}

absl::Status WriteCsvTables(std::string_view command, const std::string& document,
                            const std::string& folder, const ProtectedFiles& inputs) {
  FORETRACE_ASSIGN_OR_RETURN(FileSet files, FileSet::Create(folder, inputs));
  for (const CsvTable& table : CsvTables(command, document)) {
    FORETRACE_ASSIGN_OR_RETURN(const std::string path, files.Add(table.name + ".csv"));
    FORETRACE_RETURN_IF_ERROR(WriteFile(path, table.text));
  }
  return files.Commit();
}

}  // namespace foretrace
