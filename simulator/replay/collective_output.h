#pragma once
// What `collective` answers, as text and JSON.

#include <string>
#include <vector>

#include "simulator/network/link_study.h"
#include "simulator/report/text_table.h"

namespace foretrace {

// What it takes at both ends of the sizes, a line a size, and what the last of them puts on the
// links, where that was asked.
std::string CollectiveText(CollectiveOp op, const std::vector<CollectiveRow>& rows,
                           const std::vector<LinkKindLoad>& links, const TextStyle& style);
// `rows`; `link_loads` of the last row, where there are any.
std::string CollectiveJson(const std::vector<CollectiveRow>& rows,
                           const std::vector<LinkKindLoad>& links);

// Errors against measured tables. `fitted` (null: nothing was) to those that are not held out.
std::string StudyText(const PlatformSpec* fitted, std::vector<StudyTable> tables,
                      const TextStyle& style);
// The tier, the links where they were fitted, and the tables.
std::string StudyJson(const PlatformSpec* fitted, NetworkTier tier,
                      const std::vector<StudyTable>& tables);

}  // namespace foretrace
