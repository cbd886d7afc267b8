#pragma once
// Explored spaces of the shipped studies, and tables to compare them with.

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "simulator/base/csv.h"
#include "simulator/base/input.h"
#include "simulator/dataflow/exploration.h"

namespace foretrace::dataflow {

using Table = std::vector<std::map<std::string, std::string>>;

inline Table ParseCsv(const std::string& text) {
  Table rows;
  std::vector<std::string> header;
  for (const std::string_view line : SplitLines(text)) {
    const std::vector<std::string> cells = SplitCsvLine(line);
    if (header.empty()) {
      header = cells;
      continue;
    }
    std::map<std::string, std::string>& row = rows.emplace_back();
    for (size_t i = 0; i < std::min(cells.size(), header.size()); ++i) row[header[i]] = cells[i];
  }
  return rows;
}

inline std::string Study(const std::string& name) {
  return std::string(FORETRACE_SOURCE_DIR) + "/traces/workloads/studies/" + name + ".yaml";
}

struct Explored {
  Space space;
  std::vector<Point> points;
  std::vector<PointResult> results;
};

inline Explored Explore(const std::string& name) {
  Explored e;
  const auto space = LoadSpace(Study(name), *AcceleratorCatalog::Of({}));
  EXPECT_TRUE(space.ok()) << space.status();
  if (!space.ok()) return e;
  e.space = *space;
  e.points = PointsOf(e.space);
  for (const Point& p : e.points) {
    const auto r = EvaluatePoint(e.space, p);
    EXPECT_TRUE(r.ok() && r->feasible) << r.status() << (r.ok() ? r->why_not : "");
    if (r.ok()) e.results.push_back(*r);
  }
  return e;
}

}  // namespace foretrace::dataflow
