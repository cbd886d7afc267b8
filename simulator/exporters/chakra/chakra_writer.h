#pragma once
// Trace stores as Chakra .et files.

#include <functional>
#include <stop_token>
#include <string>

#include "absl/status/status.h"
#include "simulator/base/atomic_file.h"
#include "simulator/exporters/chakra/comm_view.h"
#include "simulator/trace/rank_trace.h"

namespace foretrace {

struct ChakraWriterOptions {
  // Files are PREFIX.RANK.et.
  std::string prefix = "trace";
  ProtectedFiles inputs;  // never replaced
  std::stop_token stop;
  // Called after each file, with how many there will be.
  std::function<void(int64_t done, int64_t total)> progress;
};

// Writes one file per rank into `directory`, which is made if it is missing, and, where not all
// communication is among all ranks, PREFIX.groups.json for tools that want groups beside the
// traces.
//
// The files follow v0.0.4 so that other tools can replay them: node types, dependencies (program
// order included), durations in whole microseconds, communication attributes. What that schema
// cannot say (picoseconds, threads, launches, events, tensors, ...) is in attributes of this
// project, from which the importer restores every column (docs/format.md).
//
// All files appear together, complete, or none does. Errors: the directory or a file cannot be
// written (which one and why), or is an input. Cancelled where `stop` was asked for.
absl::Status WriteChakra(const TraceStore& store, const std::string& directory,
                         const ChakraWriterOptions& options);
// `view` is of `store`.
absl::Status WriteChakra(const TraceStore& store, const CommView& view,
                         const std::string& directory, const ChakraWriterOptions& options);

// Content of one rank's file, for tests and for callers that do not want a file.
std::string EncodeChakra(const TraceStore& store, const CommView& view, const RankTrace& rank);

}  // namespace foretrace
