#pragma once
// Tables of measurements as text.

#include <string>

#include "absl/status/statusor.h"

namespace foretrace {

// The table's text, whatever it is compressed by, without a byte order mark. Errors: a file that
// cannot be read or is larger than a table may be.
absl::StatusOr<std::string> ReadTableText(const std::string& path);

}  // namespace foretrace
