#pragma once

#include <string_view>

namespace foretrace {

// How a timeline that foretrace wrote begins. It has the form of a profile, but is none: importers
// refuse it. The events come first, or Perfetto (20.1) does not take the file for a trace.
inline constexpr std::string_view kTimelineMark =
    "{\"traceEvents\":[\n{\"ph\":\"M\",\"pid\":1,\"tid\":0,\"ts\":0,\"name\":\"foretrace_"
    "timeline\",";

}  // namespace foretrace
