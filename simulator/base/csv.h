#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace foretrace {

// Fields of one line of comma-separated text (RFC 4180): a field may stand in double quotes, within
// which a doubled quote is one. Spaces and carriage returns at the line's end are dropped.
std::vector<std::string> SplitCsvLine(std::string_view line);

}  // namespace foretrace
