#pragma once
// Tables for people: aligned columns, limited to a width.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace foretrace {

struct TextStyle {
  size_t width = 100;   // columns; lines are not longer where the numbers allow
  bool colour = false;  // ANSI bold headings: set it only when writing to a terminal
};

class TextTable {
 public:
  enum class Align { kLeft, kRight };
  struct Column {
    std::string heading;
    Align align = Align::kRight;
    // May be cut to fit the width: names, never numbers.
    bool flexible = false;
  };

  explicit TextTable(std::vector<Column> columns) : columns_(std::move(columns)) {}
  // One cell per column; control characters in cells become '?'.
  void AddRow(std::vector<std::string> cells);
  bool empty() const { return rows_.empty(); }
  // Two spaces between columns, every line ends in '\n'. Cut cells keep head and tail around "...".
  // Columns in which no row has anything are left out.
  // Columns that still do not fit follow in further tables below, each after the first column and
  // the left-aligned ones beside it, which name the row.
  std::string Format(const TextStyle& style) const;

 private:
  std::string FormatColumns(const TextStyle& style, const std::vector<size_t>& shown,
                            const std::vector<size_t>& widths) const;
  // Those in which some row has something; all, where there are no rows.
  std::vector<size_t> Filled() const;

  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

// `text` in at most `width` characters, with "..." in place of its middle. UTF-8 sequences stay
// whole.
std::string Shorten(std::string_view text, size_t width);
// `text` with line breaks between words, so that no line is longer than `width`: its first line
// begins at column `at`, the others are indented by `indent`.
std::string Wrapped(std::string_view text, size_t width, size_t at, size_t indent);
// Characters, counting each UTF-8 sequence as one.
size_t DisplayWidth(std::string_view text);

}  // namespace foretrace
