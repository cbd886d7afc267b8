#pragma once
// Answers as one page for a browser: a file that needs nothing beside it.

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace foretrace {

// The page of --html. `document` is what --json prints; what the page shows of it is
// console/pages/answers.js and inputs.js, and its charts are drawn by Chart.js, which the page
// carries. Names in the answer are data: no part of it can become markup or script, and the page's
// policy allows its own script and style alone, by their hashes. Errors: no Chart.js; over 500 MB;
// the file cannot be written.
absl::Status WritePage(std::string_view command, const std::string& document,
                       const std::string& path);

}  // namespace foretrace
