#include "simulator/serve/csv_columns.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "simulator/base/csv.h"
#include "simulator/base/error.h"
#include "simulator/base/input.h"
#include "simulator/base/status_macros.h"

namespace foretrace::serve {

const std::string& CsvRow::Text(size_t column) const {
  static const std::string none;
  if (places_[column] < fields_.size()) return fields_[places_[column]];
  if (problem_.empty()) problem_ = fmt::format("{} is missing", names_[column]);
  return none;
}

double CsvRow::Number(size_t column, double low, double high) const {
  const std::string& text = Text(column);
  double value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool all = code == std::errc() && end == text.data() + text.size();
  if (all && value >= low && value <= high) return value;
  if (problem_.empty()) {
    problem_ =
        fmt::format("{} '{}' is not a number from {:g} to {:g}", names_[column], text, low, high);
  }
  return 0;
}

int32_t CsvRow::Integer(size_t column, int32_t low, int32_t high) const {
  const double value = Number(column, low, high);
  if (value != std::floor(value) && problem_.empty()) {
    problem_ = fmt::format("{} '{}' is not a whole number", names_[column], Text(column));
  }
  return static_cast<int32_t>(value);
}

absl::StatusOr<CsvColumns> CsvColumns::Open(const std::string& file,
                                            const std::vector<std::string_view>& columns) {
  FORETRACE_ASSIGN_OR_RETURN(std::string text, ReadTextFile(file, kMaxTableBytes));
  return Parse(file, std::move(text), columns);
}

absl::StatusOr<CsvColumns> CsvColumns::Parse(const std::string& file, std::string text,
                                             const std::vector<std::string_view>& columns) {
  CsvColumns table;
  table.file_ = file;
  table.text_ = std::move(text);
  size_t begin = 0;
  table.line_ = 1;
  // Provenance.
  for (; begin < table.text_.size() && table.text_[begin] == '#'; ++table.line_) {
    begin = std::min(table.text_.find('\n', begin), table.text_.size() - 1) + 1;
  }
  const size_t end = std::min(table.text_.find('\n', begin), table.text_.size());
  table.header_ = SplitCsvLine(std::string_view(table.text_).substr(begin, end - begin));
  table.at_ = end + 1;
  for (const std::string_view column : columns) {
    if (table.Also(column) >= 0) continue;
    return InvalidInput("{}:{}: the header has no column '{}'; needed are {}", file, table.line_,
                        column, fmt::join(columns, ", "));
  }
  return table;
}

bool CsvColumns::Has(std::string_view column) const {
  return std::find(header_.begin(), header_.end(), column) != header_.end();
}

int32_t CsvColumns::Also(std::string_view column) {
  const auto at = std::find(header_.begin(), header_.end(), column);
  if (at == header_.end()) return -1;
  if (std::find(at + 1, header_.end(), column) != header_.end() && status_.ok()) {
    status_ = InvalidInput("{}:{}: the header has the column '{}' twice", file_, line_, column);
  }
  row_.places_.push_back(static_cast<size_t>(at - header_.begin()));
  row_.names_.emplace_back(column);
  return static_cast<int32_t>(row_.places_.size()) - 1;
}

bool CsvColumns::Next() {
  if (!row_.problem_.empty()) Fail(row_.problem_);
  if (!status_.ok()) return false;
  while (at_ < text_.size()) {
    const size_t end = std::min(text_.find('\n', at_), text_.size());
    const std::string_view line = std::string_view(text_).substr(at_, end - at_);
    at_ = end + 1;
    ++line_;
    if (line.empty() || line == "\r") continue;
    row_.fields_ = SplitCsvLine(line);
    if (row_.fields_.size() > header_.size()) {
      Fail(fmt::format("{} values, and the header has {} columns", row_.fields_.size(),
                       header_.size()));
      return false;
    }
    ++rows_;
    return true;
  }
  return false;
}

void CsvColumns::Fail(std::string_view problem) {
  if (status_.ok()) status_ = InvalidInput("{}:{}: {}", file_, line_, problem);
  row_.problem_.clear();
}

absl::Status CsvColumns::status() const {
  if (!status_.ok()) return status_;
  if (rows_ == 0) return InvalidInput("{}: has a header and no rows", file_);
  return absl::OkStatus();
}

}  // namespace foretrace::serve
