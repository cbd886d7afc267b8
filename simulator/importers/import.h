#pragma once
// From paths on a command line to a trace store.

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/importers/importer.h"
#include "simulator/trace/rank_trace.h"

namespace foretrace {

// Each path is a trace file (plain or compressed), a tar or zip of ranks, or a folder of these;
// folders are read in order of name, up to kFolderLevels of subfolders included; "-" is standard
// input. Side files (READMEs, YAML, process group tables) are passed over in folders and archives,
// but not when named by themselves.
//
// The rank of a file is what it declares, else the number in its name ("rank3", "worker3",
// "eg_3", ".3.et"), else that of its folder where there are several, or where it says so ("rank3"),
// else 0 when it is the only one. An execution trace and a profile of one rank
// are linked into one trace. Errors: no traces, two files of one kind for one rank, a file of
// unknown format, bad content.
absl::StatusOr<TraceStore> ImportTraces(const std::vector<std::string>& paths,
                                        const ImportOptions& options);

}  // namespace foretrace
