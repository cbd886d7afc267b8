#pragma once

#include <string>
#include <vector>

namespace foretrace {

// `name` itself where it can be read; else the platform or calibration of that name that ships with
// foretrace: FOLDER/NAME+SUFFIX below the working folder or the project's. `name` where none is.
std::string FindShipped(const std::string& folder, const std::string& name,
                        const std::string& suffix);

// The folder as it ships with foretrace.
std::string ShippedFolder(const std::string& folder);

// FOLDER/*/FILE below the working folder, then below the project's; each in order of names.
std::vector<std::string> ListShipped(const std::string& folder, const std::string& file);

}  // namespace foretrace
