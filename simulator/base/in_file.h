#pragma once

#include <string>

#include "absl/status/status.h"

namespace foretrace {

// The error with the file that led to it before it, unless it begins with that. OK and what was
// interrupted stay as they are.
inline absl::Status InFile(const std::string& file, const absl::Status& status) {
  const bool error = !status.ok() && !absl::IsCancelled(status);
  if (!error || status.message().substr(0, file.size()) == file) return status;
  return absl::Status(status.code(), file + ": " + std::string(status.message()));
}

}  // namespace foretrace
