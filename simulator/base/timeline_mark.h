#pragma once

#include <string_view>

namespace foretrace {

// How a timeline that foretrace wrote begins. It has the form of a profile, but is none: importers
// refuse it. The events come first, or Perfetto (20.1) does not take the file for a trace.
inline constexpr std::string_view kTimelineMark =
    "{\"traceEvents\":[\n{\"ph\":\"M\",\"pid\":1,\"tid\":0,\"ts\":0,\"name\":\"foretrace_"
    "timeline\",";

// The same of one in Perfetto's form: a packet (field 1 of the trace) of metadata so named.
inline constexpr std::string_view kPerfettoTimelineMark =
    "\x0a\x1f\x2a\x19\x12\x17\x0a\x12"
    "foretrace_timeline";

}  // namespace foretrace
