#pragma once

#include <string>

namespace foretrace {

// The file of a platform: `name` itself where such a file exists, else the platform of that name
// that ships with foretrace, else `name`.
std::string FindPlatform(const std::string& name);

}  // namespace foretrace
