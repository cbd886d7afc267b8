#pragma once
// Reads platform files. The schema is documented in topologies/README.md.

#include <string>

#include "absl/status/statusor.h"
#include "simulator/topology/platform.h"

namespace foretrace {

// Errors name file, line and key, and what is allowed.
absl::StatusOr<PlatformSpec> LoadPlatform(const std::string& file);
// `name` stands for the file in messages.
absl::StatusOr<PlatformSpec> ParsePlatform(const std::string& text, const std::string& name);

// Limits that keep sizes checked before anything is allocated.
inline constexpr int32_t kMaxDevicesPerNode = 1024;
inline constexpr int32_t kMaxNodes = 1 << 20;
inline constexpr int64_t kMaxDevices = 1 << 21;

}  // namespace foretrace
