#include "simulator/planning/table_statistics.h"

#include <cstdio>
#include <vector>

#include "simulator/base/error.h"
#include "simulator/base/input.h"
#include "simulator/base/status_macros.h"
#include "simulator/importers/tables/locality_stats.h"

namespace foretrace {

static_assert(kLocalityBins == kReuseBins);

absl::StatusOr<TableStatistics> LoadTableStatistics(const std::string& file) {
  FORETRACE_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(file, kMaxTableBytes));
  FORETRACE_ASSIGN_OR_RETURN(const std::vector<LocalityStats> entries,
                             ParseLocalityStats(file, text));
  const LocalityStats& first = entries.front();
  long tables = 0, batch = 0;
  if (std::sscanf(first.file.c_str(), "fbgemm_t%ld_bs%ld", &tables, &batch) != 2 || tables <= 0 ||
      batch <= 0) {
    return InvalidInput("{}: data file '{}' is not named fbgemm_t<tables>_bs<batch>", file,
                        first.file);
  }
  if (tables != 856 && tables != 788) {
    return InvalidInput(
        "{}: how many of its {} tables are heavy is known for 856 (2021) and 788 (2022) "
        "tables alone",
        file, tables);
  }
  TableStatistics part;
  part.lookups = first.lookups;
  part.unique_rows = first.unique_rows;
  part.reuse = FromRightClosedBins(first.by_count);
  part.tables = tables;
  part.batch = batch;
  part.label = tables == 856 ? "2021" : "2022";
  part.heavy_share = tables == 856 ? 103.0 / 856 : 166.0 / 788;
  return part;
}

}  // namespace foretrace
