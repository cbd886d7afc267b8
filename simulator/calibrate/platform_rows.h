#pragma once
// The rows of benchmark tables by platform, with where they are from.

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "simulator/calibrate/calibrate.h"

namespace foretrace {

// What the tables say about one platform.
struct PlatformData {
  std::vector<BenchmarkRow> rows;
  std::vector<BenchmarkRow> test_rows;
  Interconnect interconnect = Interconnect::kUnknown;
  std::vector<std::map<std::string, std::string, std::less<>>> sources;
  std::vector<std::string> files;  // of `rows`; where there are none, of `test_rows`
  std::string date;
  bool fitted_elsewhere = false;  // `rows` are another platform's
};
using Platforms = std::map<std::string, PlatformData>;

// Of the options' tables, those to fit first. Errors: files that cannot be read or are given twice;
// a table without rows of the fitter's kind; devices and interconnects that contradict each other.
absl::StatusOr<Platforms> ReadPlatforms(const Fitter& fitter, const CalibrateOptions& options);

// Platforms that have test rows alone are predicted from the one platform that was fitted, where
// models of the family carry over; that is then fitted for each.
absl::Status FitForOthers(const Fitter& fitter, Platforms& platforms);

}  // namespace foretrace
