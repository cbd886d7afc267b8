#include "simulator/importers/tables/locality_stats.h"

#include <charconv>
#include <cmath>
#include <optional>

#include "simulator/base/error.h"

namespace foretrace {
namespace {

std::optional<double> Number(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  double value = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  if (result.ec != std::errc() || result.ptr != text.data() + text.size()) return std::nullopt;
  return std::isfinite(value) && value >= 0 ? std::optional(value) : std::nullopt;
}

}  // namespace

absl::StatusOr<std::vector<LocalityStats>> ParseLocalityStats(std::string_view path,
                                                              std::string_view text) {
  std::vector<LocalityStats> list;
  int line_number = 0;
  size_t bin = kLocalityBins;  // next bin of the histogram being read; kLocalityBins: none
  const auto bad = [&](std::string_view what) {
    return InvalidInput("{}:{}: {}", path, line_number, what);
  };
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    ++line_number;
    if (line.ends_with('\r')) line.remove_suffix(1);
    const size_t colon = line.find(": ");
    if (line.ends_with(".pt")) {
      list.emplace_back().file = std::string(line);
      bin = kLocalityBins;
    } else if (list.empty()) {
      continue;
    } else if (line.starts_with("Histogram of col sizes")) {
      bin = 0;
    } else if (colon != std::string_view::npos && line.starts_with("Avg # of")) {
      const auto value = Number(line.substr(colon + 2));
      if (!value) return bad("not a number");
      (line.starts_with("Avg # of indices") ? list.back().lookups : list.back().unique_rows) =
          *value;
    } else if (line.starts_with('(') && bin < kLocalityBins) {
      const auto value =
          colon == std::string_view::npos ? std::nullopt : Number(line.substr(colon + 2));
      if (!value) return bad("a bin of the histogram without a share");
      list.back().by_count[bin++] = *value;
    } else if (bin > 0 && bin < kLocalityBins) {
      return bad("the histogram has fewer than 17 bins");
    }
  }
  if (list.empty()) return bad("no locality statistics found; is it a locality_stats.txt?");
  if (bin > 0 && bin < kLocalityBins) return bad("ends within a histogram: cut short?");
  for (const LocalityStats& stats : list) {
    double total = 0;
    for (const double share : stats.by_count) total += share;
    // Shares are printed with three digits.
    const bool whole = total > 0.98 && total < 1.02;
    if (!whole || !(stats.lookups >= 1) || !(stats.unique_rows >= 1) ||
        stats.unique_rows > stats.lookups || stats.lookups > 1e15) {
      return InvalidInput(
          "{}: {}: {} indices to {} unique columns and a histogram of {:.3f} in sum; there must be "
          "at least as many indices as columns, of each at least one, and a sum of 1",
          path, stats.file, stats.lookups, stats.unique_rows, total);
    }
  }
  return list;
}

}  // namespace foretrace
