#pragma once
// What another simulator will find in exported files.
//
// The bytes of the files are read back by the schema alone, without this project's attributes, and
// run without time as ASTRA-sim (518bd51) feeds them: nodes whose dependencies are done, the lowest
// id first, one communication of a rank at a time but for receives, a group's collectives meeting
// by count.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/exporters/chakra/comm_view.h"
#include "simulator/trace/rank_trace.h"

namespace foretrace {

struct Portability {
  int64_t nodes = 0;
  int64_t collectives = 0;  // nodes
  int64_t sends = 0;
  int64_t receives = 0;
  int64_t without_duration = 0;       // work that others take for nothing
  int64_t unsupported = 0;            // collectives of types that ASTRA-sim does not run
  int64_t without_size = 0;           // communication of no bytes
  int64_t unordered = 0;              // collectives that may overtake one of their own group
  int64_t never_run = 0;              // nodes
  std::vector<std::string> problems;  // why a run would end early or not at all; at most 20

  bool ok() const { return problems.empty(); }
};

// Error: the encoded bytes cannot be read, which is a defect.
absl::StatusOr<Portability> CheckPortability(const TraceStore& store, const CommView& view);

}  // namespace foretrace
