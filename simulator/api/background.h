#pragma once
// Runs commands for a caller that wants to be told how far they are and to stop them.

#include <memory>
#include <string>
#include <vector>

#include "simulator/api/foretrace.h"

namespace foretrace {
class TraceStore;
struct TraceOptions;
}  // namespace foretrace

namespace foretrace::api {
inline namespace v1 {

struct Command {
  std::vector<std::string> arguments;
  std::shared_ptr<const TraceStore> traces;  // null: imported by the command
};

// What the command prints. Throws Error, and whatever `control` throws.
std::string Execute(const Command& command, const Control& control);

// Throws as Execute does.
std::shared_ptr<const TraceStore> ImportInBackground(const TraceOptions& traces,
                                                     const Control& control);

}  // namespace v1
}  // namespace foretrace::api
