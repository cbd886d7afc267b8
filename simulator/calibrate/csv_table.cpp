#include "simulator/calibrate/csv_table.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <iterator>

#include "absl/container/flat_hash_map.h"
#include "simulator/base/csv.h"
#include "simulator/base/enum_names.h"
#include "simulator/base/error.h"
#include "simulator/base/input.h"
#include "simulator/base/status_macros.h"
#include "simulator/base/utf8.h"
#include "simulator/calibrate/csv_schema.h"

namespace foretrace {
namespace {

constexpr std::array<std::string_view, 11> kColumns = {"kind",    "op",      "phase",   "platform",
                                                       "dtype",   "shape",   "time_us", "std_us",
                                                       "repeats", "library", "source"};
constexpr std::string_view kHeader =
    "kind,op,phase,platform,dtype,shape,time_us,std_us,repeats,library,source";

// Takes the next line off `text`, without its end ("\n" or "\r\n").
std::string_view TakeLine(std::string_view& text) {
  const size_t end = std::min(text.find('\n'), text.size());
  std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

// Fields of one line; false for a quote that does not close.
bool SplitFields(std::string_view line, std::vector<std::string>& fields) {
  fields = SplitCsvLine(line);
  return std::ranges::count(line, '"') % 2 == 0;
}

template <typename T>
std::optional<T> ParseNumber(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// A comment that nccl-tests prints: its settings, or its headings.
bool IsOfNcclTests(std::string_view comment) {
  return comment.starts_with("# nThread") || comment.starts_with("#       size");
}

absl::Status CheckHeader(std::string_view path, int64_t line, std::string_view header,
                         bool nccl_tests) {
  if (header == kHeader) return absl::OkStatus();
  if (nccl_tests && header.find(',') == header.npos) {
    return InvalidInput(
        "{}:{}: a log of nccl-tests, not a table; make one with the columns {}, a row for each "
        "size, its time in time_us, as shape bytes=;ranks=;nodes=;placement=;inplace= "
        "(calibration/README.md)",
        path, line, kHeader);
  }
  std::vector<std::string> fields;
  SplitFields(header, fields);
  for (const std::string& field : fields) {
    if (std::find(kColumns.begin(), kColumns.end(), field) == kColumns.end()) {
      const bool time = field.starts_with("time");
      return InvalidInput("{}:{}: unknown column '{}'; {}", path, line, field,
                          time ? "times are in microseconds, in the column time_us"
                               : "calibration/README.md lists the columns");
    }
  }
  for (std::string_view column : kColumns) {
    if (std::find(fields.begin(), fields.end(), column) == fields.end()) {
      return InvalidInput("{}:{}: no column '{}'; expected {}", path, line, column, kHeader);
    }
  }
  return InvalidInput("{}:{}: columns in another order; expected {}", path, line, kHeader);
}

// Benchmarks write round powers of ten for runs that failed (100000, 1e6, 1e9).
bool IsSentinel(double time_us) {
  if (time_us >= 1e9) return true;
  for (double power = 1e5; power < 1e9; power *= 10) {
    if (time_us == power) return true;
  }
  return false;
}

absl::Status ParseTimes(const std::vector<std::string>& fields, BenchmarkRow& row) {
  const auto time = ParseNumber<double>(fields[6]);
  if (!time || !std::isfinite(*time)) {
    return InvalidInput("time_us is '{}', not a number", fields[6]);
  }
  if (*time <= 0) return InvalidInput("time_us is {}; a time must be positive", fields[6]);
  if (IsSentinel(*time)) {
    return InvalidInput("time_us is {}, which looks like a failure sentinel: leave the row out",
                        fields[6]);
  }
  const auto std_us = fields[7].empty() ? std::optional<double>(0) : ParseNumber<double>(fields[7]);
  if (!std_us || !(*std_us >= 0) || !std::isfinite(*std_us)) {
    return InvalidInput("std_us is '{}', not a number of at least 0", fields[7]);
  }
  const auto repeats =
      fields[8].empty() ? std::optional<int64_t>(1) : ParseNumber<int64_t>(fields[8]);
  if (!repeats || *repeats < 1) {
    return InvalidInput("repeats is '{}', not an integer of at least 1", fields[8]);
  }
  row.time_us = *time;
  row.std_us = *std_us;
  row.repeats = *repeats;
  return absl::OkStatus();
}

// Platforms name folders.
bool IsPlatformName(std::string_view name) {
  return !name.empty() && name.front() != '.' && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  });
}

absl::Status ParseRow(const std::vector<std::string>& fields, BenchmarkRow& row) {
  if (fields.size() != kColumns.size()) {
    return InvalidInput("{} fields, expected {}", fields.size(), kColumns.size());
  }
  const auto kind = ParseEnum<BenchmarkKind>(fields[0]);
  if (!kind) {
    return InvalidInput("unknown kind '{}' (kernel, collective, embedding, overhead, memory)",
                        fields[0]);
  }
  const auto phase = ParseEnum<Phase>(fields[2]);
  if (!phase) {
    return InvalidInput("unknown phase '{}' (forward, backward, optimizer, -)", fields[2]);
  }
  row.kind = *kind;
  row.op = fields[1];
  row.phase = *phase;
  row.platform = fields[3];
  row.dtype = fields[4];
  row.library = fields[9];
  row.source = fields[10];
  if (!IsPlatformName(row.platform)) {
    return InvalidInput("platform is '{}'; use letters, digits, '.', '_' and '-'", row.platform);
  }
  FORETRACE_ASSIGN_OR_RETURN(row.shape, ShapeKeys::Parse(fields[5]));
  FORETRACE_RETURN_IF_ERROR(ParseTimes(fields, row));
  return CheckRowShape(row);
}

// "# key: value"; other comments are ignored.
void ParseProvenance(std::string_view line, BenchmarkTable& table) {
  line.remove_prefix(1);
  while (line.starts_with(' ')) line.remove_prefix(1);
  const size_t colon = line.find(": ");
  if (colon == std::string_view::npos) return;
  table.provenance.emplace(line.substr(0, colon), line.substr(colon + 2));
}

}  // namespace

std::string_view Name(BenchmarkKind kind) {
  static constexpr std::array<std::string_view, 6> kNames = {"kernel",   "collective", "embedding",
                                                             "overhead", "memory",     "exchange"};
  return EnumName(kNames, kind);
}

std::string_view Name(Phase phase) {
  static constexpr std::array<std::string_view, 4> kNames = {"-", "forward", "backward",
                                                             "optimizer"};
  return EnumName(kNames, phase);
}

absl::StatusOr<ShapeKeys> ShapeKeys::Parse(std::string_view text) {
  ShapeKeys shape;
  while (!text.empty()) {
    const size_t end = std::min(text.find(';'), text.size());
    const std::string_view entry = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (entry.empty()) continue;
    const size_t equals = entry.find('=');
    if (equals == std::string_view::npos || equals == 0) {
      return InvalidInput("shape entry '{}' is not key=value", entry);
    }
    const std::string_view key = entry.substr(0, equals);
    if (shape.Text(key)) return InvalidInput("shape key '{}' is given twice", key);
    shape.entries_.emplace_back(key, entry.substr(equals + 1));
  }
  return shape;
}

std::optional<std::string_view> ShapeKeys::Text(std::string_view key) const {
  for (const auto& [name, value] : entries_) {
    if (name == key) return value;
  }
  return std::nullopt;
}

std::optional<int64_t> ShapeKeys::Int(std::string_view key) const {
  const auto text = Text(key);
  return text ? ParseNumber<int64_t>(*text) : std::nullopt;
}

absl::StatusOr<BenchmarkTable> ParseBenchmarkCsv(std::string_view path, std::string_view text) {
  BenchmarkTable table;
  table.path = path;
  text = WithoutByteOrderMark(text);
  bool have_header = false, nccl_tests = false;
  int64_t number = 0;
  std::vector<std::string> fields;
  absl::flat_hash_map<std::string, int64_t> first_line;
  while (!text.empty()) {
    const std::string_view line = TakeLine(text);
    ++number;
    if (line.empty()) continue;
    if (line.starts_with('#')) {
      nccl_tests = nccl_tests || IsOfNcclTests(line);
      ParseProvenance(line, table);
      continue;
    }
    if (!have_header) {
      FORETRACE_RETURN_IF_ERROR(CheckHeader(path, number, line, nccl_tests));
      have_header = true;
      continue;
    }
    if (!SplitFields(line, fields)) {
      return InvalidInput("{}:{}: a quote does not close", path, number);
    }
    BenchmarkRow row;
    row.line = number;
    if (absl::Status status = ParseRow(fields, row); !status.ok()) {
      return InvalidInput("{}:{}: {}", path, number, std::string(status.message()));
    }
    const std::string key =
        fmt::format("{}\n{}\n{}\n{}\n{}\n{}\n{}\n{}", fields[0], fields[1], fields[2], fields[3],
                    fields[4], fields[5], fields[9], fields[10]);
    if (const auto [it, inserted] = first_line.try_emplace(key, number); !inserted) {
      return InvalidInput(
          "{}:{}: duplicate of line {}; merge repeats into one row (median time, "
          "std_us, repeats)",
          path, number, it->second);
    }
    table.rows.push_back(std::move(row));
  }
  if (!have_header) return InvalidInput("{}: no header; expected {}", path, kHeader);
  if (table.rows.empty()) return InvalidInput("{}: no rows", path);
  return table;
}

std::string BenchmarkCsv(const BenchmarkTable& table) {
  std::string text;
  for (const auto& [key, value] : table.provenance) text += fmt::format("# {}: {}\n", key, value);
  text += fmt::format("{}\n", kHeader);
  for (const BenchmarkRow& row : table.rows) {
    std::string shape;
    for (const auto& [key, value] : row.shape.entries()) {
      shape += fmt::format("{}{}={}", shape.empty() ? "" : ";", key, value);
    }
    text += CsvLineOf(Name(row.kind), row.op, Name(row.phase), row.platform, row.dtype, shape,
                      row.time_us, row.std_us, row.repeats, row.library, row.source);
  }
  return text;
}

absl::StatusOr<BenchmarkTable> ReadBenchmarkCsv(const std::string& path) {
  FORETRACE_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path, kMaxTableBytes));
  return ParseBenchmarkCsv(path, text);
}

}  // namespace foretrace
