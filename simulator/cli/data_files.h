#pragma once
// Data that ships with foretrace and is found by name: platforms, calibrations.

#include <string>
#include <string_view>

namespace foretrace {

// `name` when something of that name exists; else FOLDER/NAME + suffix in the working directory or in
// foretrace's own data; else `name` as it is, for the error message of whoever opens it.
std::string FindDataFile(std::string_view folder, const std::string& name,
                         std::string_view suffix);

}  // namespace foretrace
