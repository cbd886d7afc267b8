#pragma once
// CSV files with a header, read by the names of its columns.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace foretrace::serve {

// One line. What is wrong with it is kept by its table, and reads as zero.
class CsvRow {
 public:
  // By place in the columns that were asked for.
  const std::string& Text(size_t column) const;
  double Number(size_t column, double low, double high) const;
  int32_t Integer(size_t column, int32_t low, int32_t high) const;

 private:
  friend class CsvColumns;
  std::vector<std::string> fields_;
  std::vector<size_t> places_;
  std::vector<std::string> names_;
  mutable std::string problem_;
};

class CsvColumns {
 public:
  // `columns` must be in the header, in any order; others may be. Errors: those of ReadTextFile, a
  // column that is not there.
  static absl::StatusOr<CsvColumns> Open(const std::string& file,
                                         const std::vector<std::string_view>& columns);
  // The same of text in memory; `file` names it in messages.
  static absl::StatusOr<CsvColumns> Parse(const std::string& file, std::string text,
                                          const std::vector<std::string_view>& columns);
  bool Has(std::string_view column) const;
  // Adds a column to those that are asked for; its place, or -1 where the header lacks it.
  int32_t Also(std::string_view column);
  // The next line that is not empty; false at the end or after an error.
  bool Next();
  const CsvRow& row() const { return row_; }
  size_t line() const { return line_; }
  // An error about the current line.
  void Fail(std::string_view problem);
  // The first error, which names file, line and column; a file without rows is one.
  absl::Status status() const;

 private:
  std::string file_, text_;
  size_t at_ = 0, line_ = 0, rows_ = 0;
  std::vector<std::string> header_;
  CsvRow row_;
  absl::Status status_;
};

}  // namespace foretrace::serve
