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

// The platform with `nodes` nodes. Errors: its file does not say that it is built for so many.
absl::StatusOr<PlatformSpec> WithNodes(PlatformSpec spec, int32_t nodes);

// A platform as users name it: a file, or a name in topologies/ (base/shipped.h), with ":NODES"
// behind it for another number of nodes. Without that, and where the file allows, it has as many
// nodes as `devices` devices need.
absl::StatusOr<PlatformSpec> FindPlatform(const std::string& argument, int64_t devices = 0);

// Limits that keep sizes checked before anything is allocated.
inline constexpr int32_t kMaxDevicesPerNode = 1024;
inline constexpr int32_t kMaxNodes = 1 << 20;
inline constexpr int64_t kMaxDevices = 1 << 21;

}  // namespace foretrace
