#include "simulator/serve/operator_columns.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "simulator/base/csv.h"
#include "simulator/base/error.h"
#include "simulator/base/input.h"
#include "simulator/base/status_macros.h"

namespace foretrace::serve {
namespace {

constexpr std::string_view kKernels = "kernel_source", kLabel = "tp_size",
                           kCache = "kv_cache_dtype", kTime = "latency_ms";
constexpr std::array<std::string_view, 4> kTypeColumns = {"gemm_dtype", "attn_dtype", "mla_dtype",
                                                          "moe_dtype"};
// What a table without the column holds.
constexpr std::array<std::pair<std::string_view, std::string_view>, 4> kUsual = {
    {{"window_size", "0"},
     {"moe_tp_size", "1"},
     {"moe_ep_size", "1"},
     {"distribution", "balanced"}}};
constexpr std::array<std::pair<std::string_view, std::string_view>, 9> kTypes = {
    {{"bf16", "bfloat16"},
     {"torch.bfloat16", "bfloat16"},
     {"fp16", "float16"},
     {"half", "float16"},
     {"torch.float16", "float16"},
     {"float8", "fp8"},
     {"fp8_e4m3", "fp8"},
     {"float8_e4m3fn", "fp8"},
     {"torch.float8_e4m3fn", "fp8"}}};

template <typename Table>
std::string_view Value(const Table& table, std::string_view key) {
  const auto found = std::ranges::find(table, key, [](const auto& entry) { return entry.first; });
  return found == table.end() ? std::string_view() : found->second;
}

std::string_view Meaning(std::string_view type) {
  const std::string_view known = Value(kTypes, type);
  return known.empty() ? type : known;
}

bool IsHalf(std::string_view type) { return type == "bfloat16" || type == "float16"; }

// A table as lines; those before the header, empty ones and ones of another number of fields stay
// as they are.
class Columns {
 public:
  Columns(std::string file, std::string_view text) : file_(std::move(file)) {
    int64_t number = 0;
    for (std::string_view line : SplitLines(text)) {
      if (line.ends_with('\r')) line.remove_suffix(1);
      ++number;
      Line& made = lines_.emplace_back();
      made.text = line;
      if (line.empty() || line.starts_with('#')) continue;
      std::vector<std::string> fields = SplitCsvLine(line);
      if (header_line_ == 0) {
        header_line_ = number;
        names_ = fields;
      }
      if (fields.size() == names_.size()) made.fields = std::move(fields);
    }
  }

  const std::string& file() const { return file_; }
  int64_t header_line() const { return header_line_; }
  const std::vector<std::string>& names() const { return names_; }
  bool Has(std::string_view name) const { return std::ranges::find(names_, name) != names_.end(); }

  std::set<std::string> Values(std::string_view name) const {
    std::set<std::string> values;
    ForEachRow(*this, [&](const Line& line) { values.insert(line.fields[At(name)]); });
    return values;
  }
  void Remove(std::string_view name) {
    const auto at = static_cast<std::ptrdiff_t>(At(name));
    for (Line& line : lines_) {
      if (!line.fields.empty()) line.fields.erase(line.fields.begin() + at);
    }
    names_.erase(names_.begin() + at);
  }
  // `of`: the column whose value each row has there; empty: `value`.
  void Add(std::string_view name, const std::string& value, std::string_view of = {}) {
    const bool copies = !of.empty();
    const size_t from = copies ? At(of) : 0;
    names_.emplace_back(name);
    bool header = true;
    for (Line& line : lines_) {
      if (line.fields.empty()) continue;
      line.fields.push_back(std::exchange(header, false) ? std::string(name)
                            : copies                     ? line.fields[from]
                                                         : value);
    }
  }
  // `type`: empty, or of rows with that value of `type_column` alone.
  void Rename(std::string_view name, const std::string& from, const std::string& to,
              std::string_view type_column = {}, const std::string& type = {}) {
    ForEachRow(*this, [&](Line& line) {
      if (!type_column.empty() && line.fields[At(type_column)] != type) return;
      if (line.fields[At(name)] == from) line.fields[At(name)] = to;
    });
  }
  // Rows by kernels, of one type.
  std::map<std::string, size_t> Kernels(std::string_view type_column,
                                        const std::string& type) const {
    std::map<std::string, size_t> rows;
    ForEachRow(*this, [&](const Line& line) {
      if (line.fields[At(type_column)] == type) ++rows[line.fields[At(kKernels)]];
    });
    return rows;
  }

  std::string Text() const {
    std::string text;
    for (const Line& line : lines_) {
      text += line.fields.empty() ? line.text + "\n" : CsvLine(line.fields);
    }
    return text;
  }

 private:
  struct Line {
    std::string text;
    std::vector<std::string> fields;
  };

  size_t At(std::string_view name) const {
    return static_cast<size_t>(std::ranges::find(names_, name) - names_.begin());
  }
  template <typename Self, typename Function>
  static void ForEachRow(Self& self, const Function& function) {
    bool header = true;
    for (auto& line : self.lines_) {
      if (line.fields.empty() || std::exchange(header, false)) continue;
      function(line);
    }
  }

  std::string file_;
  int64_t header_line_ = 0;  // 0: none
  std::vector<std::string> names_;
  std::vector<Line> lines_;
};

std::string_view TypeColumn(const Columns& table) {
  for (const std::string_view name : kTypeColumns) {
    if (table.Has(name)) return name;
  }
  return {};
}

// A column that `lacks` does not have gets what its rows share, or `has` loses it.
absl::Status Fill(const std::string& name, Columns& lacks, Columns& has,
                  std::vector<std::string>& notes) {
  const auto note = [&](std::string_view what) {
    notes.push_back(fmt::format("{} has no column {}: {}", lacks.file(), name, what));
  };
  if (name == kTime) {
    return InvalidInput("{}:{}: has no column {}; write its times there, in milliseconds",
                        lacks.file(), lacks.header_line(), name);
  }
  if (name == kLabel || name == kKernels) {
    if (name == kKernels) note("rows of all kernels count as alike");
    has.Remove(name);
    return absl::OkStatus();
  }
  if (name == kCache && !TypeColumn(lacks).empty()) {
    note(fmt::format("taken as its {}", TypeColumn(lacks)));
    lacks.Add(name, "", TypeColumn(lacks));
    return absl::OkStatus();
  }
  std::string value(Value(kUsual, name));
  const std::set<std::string> values = has.Values(name);
  if (value.empty() && values.size() == 1) value = *values.begin();
  if (value.empty()) {
    return InvalidInput(
        "{}:{}: has no column {}, which has {} values in {}; add it with what its rows were "
        "measured with",
        lacks.file(), lacks.header_line(), name, values.size(), has.file());
  }
  note("taken as " + value);
  lacks.Add(name, value);
  return absl::OkStatus();
}

absl::Status FillAll(Columns& lacks, Columns& has, std::vector<std::string>& notes) {
  for (const std::string& name : std::vector<std::string>(has.names())) {
    if (!lacks.Has(name)) FORETRACE_RETURN_IF_ERROR(Fill(name, lacks, has, notes));
  }
  return absl::OkStatus();
}

void NameTypes(std::string_view column, const Columns& known, Columns& test,
               std::vector<std::string>& notes) {
  const std::set<std::string> there = known.Values(column);
  for (const std::string& type : test.Values(column)) {
    if (there.contains(type)) continue;
    const std::string_view meaning = Meaning(type);
    auto same = std::ranges::find_if(there, [&](const auto& t) { return Meaning(t) == meaning; });
    if (same == there.end() && IsHalf(meaning)) {
      same = std::ranges::find_if(there, [&](const auto& t) { return IsHalf(Meaning(t)); });
      if (same != there.end()) {
        notes.push_back(
            fmt::format("{}: {} is taken as {}, which is as fast", test.file(), type, *same));
      }
    }
    if (same != there.end()) test.Rename(column, type, *same);
  }
}

bool IsGated(std::string_view kernels) {
  return kernels.find("nongated") == std::string_view::npos;
}

void NameKernels(const Columns& known, Columns& test, std::vector<std::string>& notes) {
  const std::string_view column = TypeColumn(test);
  if (column.empty() || !test.Has(kKernels)) return;
  for (const std::string& type : test.Values(column)) {
    const std::map<std::string, size_t> there = known.Kernels(column, type);
    for (const auto& [kernels, rows] : test.Kernels(column, type)) {
      if (there.contains(kernels)) continue;
      const auto* most = static_cast<const std::pair<const std::string, size_t>*>(nullptr);
      for (const auto& entry : there) {
        if (IsGated(entry.first) != IsGated(kernels)) continue;
        if (most == nullptr || entry.second > most->second) most = &entry;
      }
      if (most == nullptr) continue;
      test.Rename(kKernels, kernels, most->first, column, type);
      notes.push_back(fmt::format("{}: {} rows of {} by {}'s {}, which were measured instead",
                                  test.file(), type, kernels, known.file(), most->first));
    }
  }
}

}  // namespace

absl::StatusOr<AlignedOperators> AlignOperators(const std::string& file, std::string_view text,
                                                const std::string& test_file,
                                                std::string_view test_text) {
  Columns known(file, text), test(test_file, test_text);
  AlignedOperators aligned;
  FORETRACE_RETURN_IF_ERROR(FillAll(test, known, aligned.notes));
  FORETRACE_RETURN_IF_ERROR(FillAll(known, test, aligned.notes));
  for (const std::string_view column : {TypeColumn(test), kCache}) {
    if (!column.empty() && test.Has(column)) NameTypes(column, known, test, aligned.notes);
  }
  NameKernels(known, test, aligned.notes);
  aligned.known = known.Text();
  aligned.test = test.Text();
  return aligned;
}

}  // namespace foretrace::serve
