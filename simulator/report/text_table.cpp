#include "simulator/report/text_table.h"

#include <algorithm>
#include <sstream>
#include <utility>

#include "simulator/base/check.h"
#include "simulator/base/utf8.h"

namespace foretrace {
namespace {

constexpr size_t kGap = 2;
constexpr size_t kLeastFlexible = 16;

bool Continues(char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; }

// Byte offset of character `index`.
size_t Offset(std::string_view text, size_t index) {
  size_t at = 0;
  for (; at < text.size(); ++at) {
    if (Continues(text[at])) continue;
    if (index-- == 0) break;
  }
  return at;
}

}  // namespace

size_t DisplayWidth(std::string_view text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return !Continues(c); }));
}

std::string Shorten(std::string_view text, size_t width) {
  const size_t length = DisplayWidth(text);
  if (length <= width) return std::string(text);
  constexpr std::string_view kDots = "...";
  if (width <= kDots.size()) return std::string(kDots.substr(0, width));
  const size_t kept = width - kDots.size();
  // Kernel names differ at the front in kind and at the back in type.
  const size_t tail = kept / 3;
  std::string shortened(text.substr(0, Offset(text, kept - tail)));
  shortened += kDots;
  shortened += text.substr(Offset(text, length - tail));
  return shortened;
}

std::string Wrapped(std::string_view text, size_t width, size_t at, size_t indent) {
  std::string out;
  std::istringstream words{std::string(text)};
  for (std::string word; words >> word;) {
    if (!out.empty() && at + 1 + word.size() > width) {
      out += "\n" + std::string(indent, ' ');
      at = indent;
    } else if (!out.empty()) {
      out += ' ';
      ++at;
    }
    out += word;
    at += word.size();
  }
  return out;
}

void TextTable::AddRow(std::vector<std::string> cells) {
  FORETRACE_CHECK(cells.size() == columns_.size());
  for (std::string& cell : cells) {
    cell = OneLine(cell);
    std::replace_if(
        cell.begin(), cell.end(),
        [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }, '?');
  }
  rows_.push_back(std::move(cells));
}

std::vector<size_t> TextTable::Filled() const {
  std::vector<size_t> filled;
  for (size_t c = 0; c < columns_.size(); ++c) {
    const auto has = [&](const auto& row) { return !row[c].empty(); };
    if (rows_.empty() || std::ranges::any_of(rows_, has)) filled.push_back(c);
  }
  return filled;
}

std::string TextTable::Format(const TextStyle& style) const {
  const std::vector<size_t> filled = Filled();
  std::vector<size_t> whole(columns_.size());
  size_t total = 0;
  for (const size_t c : filled) {
    whole[c] = DisplayWidth(columns_[c].heading);
    for (const auto& row : rows_) whole[c] = std::max(whole[c], DisplayWidth(row[c]));
    total += whole[c] + (c != filled.front() ? kGap : 0);
  }
  std::vector<size_t> widths = whole;
  // The widest flexible column gives first, so that all stay readable.
  while (total > style.width) {
    size_t widest = columns_.size();
    for (const size_t c : filled) {
      const size_t least = std::max(kLeastFlexible, DisplayWidth(columns_[c].heading));
      if (!columns_[c].flexible || widths[c] <= least) continue;
      if (widest == columns_.size() || widths[c] > widths[widest]) widest = c;
    }
    if (widest == columns_.size()) break;
    --widths[widest];
    --total;
  }
  const auto is_key = [&](size_t c) {
    return c == filled.front() || columns_[c].align == Align::kLeft;
  };
  const auto keys = std::ranges::find_if_not(filled, is_key);
  std::string out;
  for (auto next = keys;;) {
    std::vector<size_t> shown(filled.begin(), keys);
    size_t used = 0;
    for (const size_t c : shown) used += widths[c] + kGap;
    const auto first = next;
    while (next != filled.end() && (next == first || used + widths[*next] <= style.width)) {
      used += widths[*next] + kGap;
      shown.push_back(*next++);
    }
    // What was cut for columns that are now in another table.
    for (auto c = first; c != next; ++c) {
      const size_t room = style.width + kGap - std::min(used, style.width + kGap);
      const size_t more = std::min(room, whole[*c] - widths[*c]);
      widths[*c] += more;
      used += more;
    }
    if (first != keys) out += '\n';
    out += FormatColumns(style, shown, widths);
    if (next == filled.end()) return out;
  }
}

std::string TextTable::FormatColumns(const TextStyle& style, const std::vector<size_t>& shown,
                                     const std::vector<size_t>& widths) const {
  const auto line = [&](const auto& cell_of) {
    std::string text;
    for (const size_t c : shown) {
      if (c != shown.front()) text.append(kGap, ' ');
      const std::string cell = Shorten(cell_of(c), widths[c]);
      const std::string padding(widths[c] - DisplayWidth(cell), ' ');
      text += columns_[c].align == Align::kRight ? padding + cell : cell + padding;
    }
    text.erase(text.find_last_not_of(' ') + 1);
    return text;
  };
  std::string out = line([&](size_t c) -> const std::string& { return columns_[c].heading; });
  if (style.colour) out = "\x1b[1m" + out + "\x1b[0m";
  out += '\n';
  for (const auto& row : rows_) {
    out += line([&](size_t c) -> const std::string& { return row[c]; });
    out += '\n';
  }
  return out;
}

}  // namespace foretrace
