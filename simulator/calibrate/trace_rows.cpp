#include "simulator/calibrate/trace_rows.h"

#include <charconv>

#include "simulator/base/error.h"
#include "simulator/calibrate/embedding/embedding_rows.h"

namespace foretrace {
namespace {

// The number behind "word=" in a row's source; -1: there is none.
int64_t WordOf(const BenchmarkRow& row, std::string_view word) {
  for (const char separator : {';', ' '}) {
    const std::string_view text = TagOf(row.source, word, separator);
    int64_t value = -1;
    if (!text.empty() &&
        std::from_chars(text.data(), text.data() + text.size(), value).ec == std::errc()) {
      return value;
    }
  }
  return -1;
}

}  // namespace

absl::StatusOr<bool> IsOddOfTrace(const BenchmarkRow& row, std::string_view rule) {
  const std::string_view word = rule == kOddRanks ? "rank" : "step";
  const int64_t value = WordOf(row, word);
  if (value < 0) {
    return InvalidInput(
        "hold-out {}: row of line {} has no {}= in its source '{}'; use every-third", rule,
        row.line, word, row.source);
  }
  return value % 2 == 1;
}

}  // namespace foretrace
