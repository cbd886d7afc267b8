#pragma once
// The tables of an answer as files of comma-separated values (RFC 4180).

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "simulator/base/atomic_file.h"

namespace foretrace {

struct CsvTable {
  std::string name;
  std::string text;  // a line of column names, and a line a row; numbers as the document has them
};

// The tables of `document`, what --json prints:
// - COMMAND: one row of its single values, objects within it as columns "outer.inner";
// - each list of objects, by its path ("communication.groups"), likewise a row each; lists of plain
//   values within a row are joined by "; ";
// - lists within rows are tables of their own ("ranks.steps"); a column "ranks[]" says by number,
//   from 0, to which row each belongs;
// - other lists of plain values, one value a row.
std::vector<CsvTable> CsvTables(std::string_view command, const std::string& document);

// Each as FOLDER/NAME.csv. Errors: those of files; one of `inputs` would be replaced.
absl::Status WriteCsvTables(std::string_view command, const std::string& document,
                            const std::string& folder, const ProtectedFiles& inputs);

}  // namespace foretrace
