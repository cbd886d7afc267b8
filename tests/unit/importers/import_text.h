#pragma once
// Imports a document held in memory as a job of one rank.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/base/status_macros.h"
#include "simulator/importers/importer.h"
#include "simulator/trace/rank_trace.h"

namespace foretrace {

inline absl::StatusOr<TraceStore> ImportText(const Importer& importer, std::string_view text) {
  const auto source = MakeMemorySource("memory.json", text);
  FORETRACE_ASSIGN_OR_RETURN(ImportedFile file, importer.Import(*source, "memory.json", {}));
  file.builder->info().rank = file.rank.value_or(0);
  FORETRACE_ASSIGN_OR_RETURN(RankTraceBuilder::Result result,
                             file.builder->Build(file.build_options));
  std::vector<std::pair<RankTrace, std::unique_ptr<StringPool>>> ranks;
  ranks.emplace_back(std::move(result.trace), std::move(result.strings));
  return TraceStore::Assemble(std::move(ranks), std::move(result.diagnostics));
}

// Events of a PyTorch profile, with what precedes them in its document.
inline absl::StatusOr<TraceStore> ImportEvents(const std::string& events,
                                               const std::string& head = "") {
  return ImportText(*MakeKinetoImporter(), "{" + head + R"("traceEvents": [)" + events + "]}");
}

// The only node of that name; invalid when there is none.
inline NodeIndex FindNode(const TraceStore& store, const RankTrace& rank, std::string_view name,
                          int occurrence = 0) {
  for (uint32_t n = 0; n < rank.size(); ++n) {
    if (store.name(rank, NodeIndex(n)) == name && occurrence-- == 0) return NodeIndex(n);
  }
  return NodeIndex();
}

}  // namespace foretrace
