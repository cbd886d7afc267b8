#pragma once
// The JSON layouts of request_files.h.

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "simulator/serve/request.h"

namespace foretrace::serve {

// One request a line.
absl::Status ReadJsonLines(const std::string& file, std::string_view text, RequestTrace& trace);
absl::Status ReadConversations(const std::string& file, const std::string& text,
                               RequestTrace& trace, std::vector<std::string>& notes);

}  // namespace foretrace::serve
