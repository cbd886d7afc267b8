#pragma once

#include <string>

namespace foretrace {

// A path, or the name of a platform that ships with foretrace.
std::string FindPlatform(const std::string& name);

}  // namespace foretrace
