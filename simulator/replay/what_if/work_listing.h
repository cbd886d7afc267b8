#pragma once
// Names that selectors can select: kernels, and framework calls with the device work that they
// issue.

#include <string>
#include <vector>

#include "simulator/base/time.h"
#include "simulator/report/text_table.h"
#include "simulator/trace/rank_trace.h"

namespace foretrace {

struct ListedWork {
  std::string name;
  int64_t count = 0;
  SimTime device;  // recorded device time
  SimTime cpu;     // framework calls: recorded CPU time
};

// By name, the most device time first, then CPU time.
std::vector<ListedWork> ListKernels(const TraceStore& store);
// Every framework call or range around a launch, with all that it encloses; names that nest in
// themselves count once.
std::vector<ListedWork> ListOps(const TraceStore& store);

std::string WorkListText(const std::vector<ListedWork>& list, bool ops, const TextStyle& style);
std::string WorkListJson(const std::vector<ListedWork>& list, bool ops);

}  // namespace foretrace
