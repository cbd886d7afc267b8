#pragma once
// What `explore` says of an explored space on a terminal.

#include <string>
#include <vector>

#include "simulator/dataflow/exploration.h"
#include "simulator/report/text_table.h"

namespace foretrace {

struct Explored {
  dataflow::Space space;
  std::vector<dataflow::Point> points;
  std::vector<dataflow::PointResult> results;
  size_t feasible = 0;
};

// Of each workload and variant the points that have most speed, most speed a dollar and a watt
// where prices and powers are stated, and most of their peak.
std::string ExploredText(const Explored& explored, const std::string& folder, TextStyle style);

}  // namespace foretrace
