#pragma once
// What a sweep found, and its table and JSON.

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "simulator/planning/sweep/sweep.h"
#include "simulator/report/text_table.h"

namespace foretrace {

struct SweepPoint {
  bool feasible = false;
  std::string why;  // why not
  std::vector<SweepValue> values;
  // Of the first column, over the first axis, the others being equal: with --scaling.
  std::optional<double> efficiency;
  bool failed = false;  // not feasible as its input is wrong, instead of what cannot be met
};

struct SweepReport {
  const SweptCommand* swept = nullptr;
  std::vector<std::string> columns;
  std::vector<SweepPoint> points;
  std::string scaling;  // "weak", "strong" or empty
};

// One line of a journal, and back; false: no such line. Numbers come back as they were.
std::string Encode(const SweepPoint& point);
bool Decode(const std::string& line, const std::vector<std::string>& columns, SweepPoint& point);

// Efficiencies of `scaling` (weak, strong, or empty: none). Errors: the first axis is no numbers
// over zero; the first column is no time.
absl::Status AddScaling(const std::string& scaling, SweepReport& report);

// Names of the axes that nothing depends on: whatever the others are, the same is answered for all
// values of it. Of those, the reader was told nothing by its values.
std::vector<std::string> AxesWithoutEffect(const SweepReport& report);

std::string SweepText(const SweepReport& report, const TextStyle& style);
std::string SweepJson(const SweepReport& report);

}  // namespace foretrace
