#pragma once

#include <string_view>

namespace foretrace {

// How a timeline that foretrace wrote begins. It has the form of a profile, but is none: importers
// refuse it.
inline constexpr std::string_view kTimelineMark = "{\"foretraceTimeline\":1,";

}  // namespace foretrace
